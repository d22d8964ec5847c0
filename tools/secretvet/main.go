// Command secretvet finds mistakes that the compiler cannot see in programs with gputrain: credentials
// that fmt prints in clear, which are values of gputrain.Secret in unexported fields of structs, on which
// fmt calls no methods; and functions for nodes that read what main alone sets.
//
//	go run github.com/gputrain/gputrain/tools/secretvet@latest ./...
//
// It is a module of its own: programs that use gputrain do not get what it needs.
package main

import "golang.org/x/tools/go/analysis/multichecker"

func main() { multichecker.Main(Analyzer, MainVars) }
