// Package hostile is a node that lies, for tests.
//
// A [Node] sits between a client and a real node. It accepts the client's SSH connection, opens its own to the real
// node, and relays every channel. The real node is honest, but a [Liar] may change, drop, repeat, withhold or invent
// any part of its answers: the two outputs of a command, how the command ended, the replies to requests, and messages
// that a server may send unasked.
//
// Some lies ignore the protocol (tamper.go). Others match what the client expects: archives and lists of files
// (archive.go, listing.go), frames of the supervisor (frames.go), messages of a worker (messages.go) and packets of
// SFTP (packets.go). [Random] chooses lies with a source of random numbers, so that a seed, or the input of a fuzz
// target, determines an attack.
//
// A [Home] is the attacked user's computer. It has decoy files with a secret, and detects all changes that an attack
// made.
package hostile
