// Package program gets this program to nodes, which run it to serve its functions. It finds the binary for a node's
// platform (the running one, one that the user has built, or one that is built now by internal/crossbuild) and ships it,
// unless the node has it.
package program
