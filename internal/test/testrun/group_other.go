//go:build !unix

package main

import "os/exec"

func group(cmd *exec.Cmd) (interrupt func()) { return func() { cmd.Process.Kill() } }
