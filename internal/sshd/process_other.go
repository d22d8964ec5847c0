//go:build !unix

package sshd

import (
	"errors"
	"io"
	"os"
	"runtime"
)

// Supported returns an error: a server's commands need sh, process groups and signals, which POSIX
// systems have.
func Supported() error {
	return errors.New("nodes on this machine need Linux or macOS, not " + runtime.GOOS + "; on Windows, run this program in WSL")
}

// A process never starts here.
type process struct {
	stdin, stdout, stderr *os.File
}

func startProcess([]string, string, []string, *terminal) (*process, error) { return nil, Supported() }

func (*process) wait() exit          { return exit{} }
func (*process) signal(string) error { return Supported() }
func (*process) kill()               {}
func (*process) hangUp()             {}
func (*process) resize(_, _ uint32)  {}

func copyOut(io.Writer, *os.File) {}
