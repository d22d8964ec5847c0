package sshd

// exit describes how a program ended: by a signal, named without SIG, or with a code.
type exit struct {
	code   int
	signal string
	core   bool
}
