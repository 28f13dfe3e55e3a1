"""Typed records of what crosses a process: a line of a file, a message of a socket, a file with one thing in it.

Who writes builds the record, who reads parses it, and nobody else knows its keys. A record that lies beside a history
is read for ever: keys that are not known here are left out, for another version may have written them.
"""
