// Package simnode is the node's side of internal/supervisor in Go: it answers
// what a pool's program sends to a node as node.sh, session.pl and runner.pl
// do, with tasks that are calls of a Go function. No process, file or socket is
// used, so that a node can live in a testing/synctest bubble.
//
// It speaks as a node with perl does. A control session first sends shell text:
// [Node.Run] skips the scripts, obeys the calls after them (see shellCalls), and
// from gt_ready on takes messages (see calls). A call that it does not know is
// ignored. The tests run the same scenarios against the real scripts: same_test.go.
package simnode
