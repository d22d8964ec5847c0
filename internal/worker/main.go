package worker

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// Env is the environment variable that makes a program a worker. Its value is
// the mode for [Main].
const Env = "GPUTRAIN_WORKER"

// ServeMode and AttachMode return the values of [Env] for the daemon that
// listens on a socket, and for the process that connects to it.
func ServeMode(socket string) string { return "serve:" + socket }

// AttachMode: see [ServeMode].
func AttachMode(socket string) string { return "attach:" + socket }

// Exit codes of the process.
const (
	exitFailed = 1  // the message on standard error says why
	exitUsage  = 64 // the mode, or the program, is wrong
	exitGone   = 69 // no worker serves there
)

// Main is the life of a worker's process. It never returns.
func Main(mode string) { os.Exit(run(mode, os.Stderr)) }

func run(mode string, stderr io.Writer) int {
	// Processes that the functions start are not workers.
	_ = os.Unsetenv(Env)
	verb, socket, _ := strings.Cut(mode, ":")
	if socket == "" || verb != "serve" && verb != "attach" {
		fmt.Fprintf(stderr, "gputrain: %s=%q is not understood: it is set by gputrain on its nodes to serve:<socket> or attach:<socket>; unset it to run this program by itself\n", Env, mode)
		return exitUsage
	}
	if verb == "attach" {
		return attach(socket, os.Stdin, os.Stdout, stderr)
	}
	if err := RegistrationError(); err != nil {
		fmt.Fprintf(stderr, "gputrain: this program's functions cannot be served: %v\n", err)
		return exitUsage
	}
	err := serve(socket)
	fmt.Fprintf(stderr, "gputrain: the worker cannot serve on %s: %v\n", socket, err)
	return exitFailed
}
