//go:build !unix

package gputrain_test

func isVictim() bool { return false }

func isSleeper() bool { return false }
