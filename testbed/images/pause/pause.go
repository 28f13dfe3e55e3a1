// Pause waits until it is told to leave. As process 1 of a pod that shares its processes it would also have to reap
// orphans; no pod of ours shares them.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	leave := make(chan os.Signal, 1)
	signal.Notify(leave, syscall.SIGINT, syscall.SIGTERM)
	<-leave
}
