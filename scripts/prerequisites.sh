#!/bin/sh
# What must be on this machine before anything else: an operating system we know, Python 3.11+, Java 17+ and make.
#
# Prints the chosen Python on standard output. For everything that is missing it prints one sentence on standard error
# that says what it is for and how to install it, and ends with 1. It installs nothing and changes nothing.
# Plain POSIX shell, because this is what runs before anything is known to be there.
set -eu

missing=0

lacks() {
    echo "setup: $1" >&2
    missing=1
}

# install_hint APT DNF BREW: the command that installs a thing here, by the package manager that is here.
install_hint() {
    if command -v apt-get >/dev/null 2>&1; then
        echo "install it with: sudo apt-get install $1"
    elif command -v dnf >/dev/null 2>&1; then
        echo "install it with: sudo dnf install $2"
    elif command -v brew >/dev/null 2>&1; then
        echo "install it with: brew install $3"
    else
        echo "install it with your system's package manager (Debian calls it: $1)"
    fi
}

# first_in_apt DEFAULT NAME...: the first of the names that apt knows here; releases differ in what they carry.
first_in_apt() {
    default=$1
    shift
    for name in "$@"; do
        if command -v apt-cache >/dev/null 2>&1 && apt-cache show "$name" >/dev/null 2>&1; then
            echo "$name"
            return
        fi
    done
    echo "$default"
}

check_system() {
    case "$(uname -s)" in
    Linux) ;;
    Darwin) echo "setup: macOS should work, but nobody has tested it" >&2 ;;
    *) lacks "$(uname -s) is not supported, because brokers are started and killed as Unix processes; use Linux (macOS should work, untested; on Windows use WSL)" ;;
    esac
}

# Prints the newest Python that is new enough and can make a virtual environment.
check_python() {
    without_venv=
    for candidate in python3.13 python3.12 python3.11 python3; do
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue
        if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
        without_venv=${without_venv:-$candidate}
    done
    if [ -n "$without_venv" ]; then
        package=$(first_in_apt python3-venv "$without_venv-venv")
        lacks "$without_venv cannot make virtual environments (the modules venv and ensurepip are missing), and everything is installed into one; $(install_hint "$package" python3 python@3.13)"
    else
        python=$(first_in_apt python3 python3.13 python3.12 python3.11)
        lacks "Python 3.11 or newer is missing, and the whole tool is written in it; $(install_hint "$python $python-venv" python3 python@3.13)"
    fi
}

check_java() {
    what_for="Kafka, Pulsar and Spark run on it"
    package=$(first_in_apt openjdk-17-jre-headless openjdk-21-jre-headless)
    hint=$(install_hint "$package" java-21-openjdk-headless "--cask temurin@21")
    java=java
    if [ -n "${JAVA_HOME:-}" ]; then
        java=$JAVA_HOME/bin/java
        hint="$hint (or unset JAVA_HOME, which is $JAVA_HOME)"
    fi
    # One start of Java answers everything when all is well; only then is it asked what is wrong.
    if said=$("$java" --add-modules jdk.incubator.vector -version 2>&1) && [ "$(java_major "$said")" -ge 17 ]; then
        return
    fi
    if ! said=$("$java" -version 2>&1); then
        lacks "Java 17 or newer is missing, and $what_for; $hint"
    elif [ "$(java_major "$said")" -lt 17 ]; then
        lacks "Java is too old ($(echo "$said" | head -n 1)): 17 or newer is needed, because $what_for; $hint"
    else
        lacks "this Java lacks the module jdk.incubator.vector, without which Spark does not start; $hint"
    fi
}

# java_major TEXT: the major version in what `java -version` said; 1.8 counts as 1, which is too old all the same.
java_major() {
    major=$(echo "$1" | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
    echo "${major:-0}"
}

check_make() {
    command -v make >/dev/null 2>&1 ||
        lacks "make is missing, and every task of this repository is started with it; $(install_hint make make make)"
}

check_system
check_python
check_java
check_make
exit "$missing"
