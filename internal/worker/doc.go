// Package worker runs functions on a node: the node's side, which is the
// user's own program started there with [Env] set, and the client's side,
// which calls it.
//
// # Processes
//
// The daemon ("serve:<socket>") is started once. It listens on a unix socket,
// runs calls concurrently and outlives every connection. A client reaches it
// through a second process ("attach:<socket>"), which it starts over SSH and
// whose standard input and output carry the protocol. Where the system allows
// it the attach process hands these two files to the daemon and only waits, so
// that nothing is copied between processes.
//
// # Protocol
//
// Both directions are a sequence of frames: a length, a type, a call's id and
// a payload (frame.go). The client says hello: protocol version, the SHA-256
// of the program it expects, its generation, and the calls that it still waits
// for, or that it adopts them all. The daemon answers with a welcome or a
// rejection. A welcome lists the node's functions: the call of another one is
// refused at the client, and no other call fails for it. What calls have in common crosses once per connection: the facts
// about the node with the hello, the addresses of a call's nodes in a frame that
// calls refer to. Large arguments and results are cut into chunks, which take
// turns, so that a small call or a cancellation waits for one chunk at most and
// never for another call's gigabyte. Writes are collected while there is more to
// write; where a call is the only one, it is written by who makes it.
//
// # Streams
//
// A call can have a stream of items in each direction. Items are numbered, and
// their sender keeps them until the other end says that they were taken, which
// also bounds how far it may be ahead: a reader that stalls stalls its own
// stream and nothing else. After a broken connection each side says how many
// items it has received whole, and the other goes on from there. The result
// says how many items there were, and counts once they have arrived.
//
// # Output
//
// The daemon's stdout and stderr are pipes that it passes on to those that it was given,
// and counts (output_unix.go). Each result says how much was printed when its function
// ended, so a client that follows the output elsewhere knows up to where it must have come,
// and which of it is whose. Nothing of it goes through this protocol.
//
// # Exactly once
//
// Calls have ids that the client chooses. The daemon keeps a call, and then
// its result, until the client has acknowledged the result. After a broken
// connection the client names its open calls: the daemon sends the results
// that are finished, goes on with those that run, and the client sends again
// only those that the daemon never received whole. Calls that are not named
// any more are cancelled and forgotten. Each daemon process has an instance
// id: where that has changed, calls that may have begun fail with
// [ErrWorkerLost] and are not sent again.
//
// # One client
//
// A daemon serves one client at a time. One with a higher generation takes
// over, and the older one ends with [ErrFenced]. One with a lower generation, or with
// the same and not the same client, is refused.
//
// Where the older one was killed, the newer one adopts its calls ([Hello.Adopt]):
// the welcome lists what runs, what has finished, and what the older one was
// holding ([Client.Hold]). The daemon keeps each until it is collected and let go
// of, or dropped, and sends a result only when it is collected. Nothing is
// required of the newer one's program: it need not have the functions.
//
// # Memory
//
// Arguments and results are held whole, once: chunks go out from the memory of
// the value itself, and come in where it stays. A daemon that holds more than
// [MaxWaiting] bytes of results which the client has not taken starts no
// further call until some are taken: calls wait, results are never dropped.
package worker
