// Package sshd is an SSH and SFTP server inside this program.
//
// It is what a node of the local provider consists of, and what a fake cloud
// boots as a machine: it answers as OpenSSH's server does, to the same
// requests, with commands that are real processes, so that nothing which
// drives a node can tell the two apart. Clients reach it over any [net.Conn];
// [Server.Dial] makes one that never leaves memory.
//
// As with OpenSSH, a connection that is cut kills nothing: what a session
// started loses its pipes, and goes on. Only [Server.Close] ends it.
//
// There is no terminal, no port forwarding, and one user: the one who runs
// this program. Whatever name a client logs in as, its key decides.
package sshd
