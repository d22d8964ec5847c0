// Package hostile is a node that lies, for tests.
//
// A [Node] stands between a client and a real node: it accepts the client's SSH
// connection, opens one of its own to the node behind it, and relays every
// channel. What the node behind does is real. What the client hears of it passes a
// [Liar], which may change, drop, repeat, withhold or invent any part of it: the
// two outputs of a command, how the command ended, the answers to requests, and
// what a server may send that no client asked for.
//
// Some lies know no protocol (tamper.go). Others know what the client expects:
// archives and lists of files (archive.go, listing.go), frames of the supervisor
// (frames.go), messages of a worker (messages.go) and packets of SFTP (packets.go).
// [Random] chooses lies by a source of random numbers, so that a seed, or the input
// of a fuzz target, is the program of an attack.
//
// A [Home] is the attacked user's computer: decoy files with a secret,
// and a look at all that an attack has changed.
package hostile
