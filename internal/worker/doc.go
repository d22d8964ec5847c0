// Package worker runs functions on a node. The node's side is the user's own program, started there with [Env] set; the
// client's side calls it.
//
// # Processes
//
// The daemon ("serve:<socket>") is started once. It listens on a unix socket, runs calls concurrently and outlives
// every connection. A client reaches it through a second process ("attach:<socket>"), which it starts over SSH and
// whose standard input and output carry the protocol. If the system allows it, the attach process passes these two
// files to the daemon and only waits, so that nothing is copied between processes.
//
// # Protocol
//
// Both directions are a sequence of frames: a length, a type, a call's id and a payload (frame.go). The client sends a
// hello: protocol version, the SHA-256 of the program that it expects, its generation, and the calls that it still
// waits for, or that it adopts all calls. The daemon answers with a welcome or a rejection. A welcome lists the node's
// functions: the client refuses calls of others, which so fail no other call. What calls have in common is sent once
// per connection: the facts about the node with the hello, the addresses of a call's nodes in a frame that calls refer
// to. Large arguments and results are cut into chunks, which take turns, so that a small call or a cancellation waits
// for one chunk at most and never for another call's gigabyte. Writes are collected while there is more to write; a
// call that is alone is written by the goroutine that makes it.
//
// # Streams
//
// A call can have a stream of items in each direction. Items are numbered, and the sender keeps them until the other
// end reports that they were taken. This also bounds how far the sender may be ahead: a reader that stalls stalls its
// own stream and nothing else. After a broken connection each side reports how many complete items it has received, and
// the other continues from there. The result has the number of items, and is delivered once they all have arrived.
//
// # Steps
//
// A function can report steps. The daemon keeps the newest of each call: it sends it ten times a second at most, once more
// over a new connection or to a client that collects the call, and before the result (report.go).
//
// # Output
//
// The daemon's stdout and stderr are pipes. It copies them to its original stdout and stderr, and counts the bytes
// (output_unix.go). Each result has the counts at the end of its function, so a client that follows the output
// elsewhere can wait for all of it, and divide it among the calls. No output goes through this protocol.
//
// # Exactly once
//
// The client chooses the ids of calls. The daemon keeps a call, and then its result, until the client has acknowledged
// the result. After a broken connection the client lists its open calls: the daemon sends the finished results and goes
// on with the running calls, and the client sends again only those that the daemon never received completely. Calls
// that are no longer listed are cancelled and forgotten. Each daemon process has an instance id: if that has changed,
// calls that may have started fail with [ErrWorkerLost] and are not sent again.
//
// # One client
//
// A daemon serves one client at a time. One with a higher generation takes over, and the older one ends with
// [ErrFenced]. A client with a lower generation, or another client with the same one, is refused.
//
// If the older client was killed, the newer one adopts its calls ([Hello.Adopt]): the welcome lists those that run,
// those that have finished, and those that the older one held ([Client.Hold]). The daemon keeps each until it is
// collected and released, or dropped, and sends a result only when it is collected. The newer client's program need not
// have the functions.
//
// # Memory
//
// Arguments and results are in memory once: chunks are sent from the memory of the value itself, and received into the
// memory where it stays. While a daemon holds more than [MaxWaiting] bytes of results that the client has not taken, it
// starts no further call: calls wait, results are never dropped.
package worker
