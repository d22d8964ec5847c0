// Package simnode is the node's side of internal/supervisor in Go: it answers a pool's program as node.sh, session.pl
// and runner.pl do, with tasks that are calls of a Go function. No process, file or socket is used, so that a node can
// live in a testing/synctest bubble.
//
// It behaves like a node with perl. A control session first sends shell text: [Node.Run] skips the scripts, executes
// the calls after them (see shellCalls), and from gt_ready on messages (see calls). It ignores unknown calls. The tests
// run the same scenarios against the real scripts: same_test.go.
package simnode
