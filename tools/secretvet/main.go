// Command secretvet finds credentials that fmt prints in clear: values of
// gputrain.Secret in unexported fields of structs, on which fmt calls no methods.
//
//	go run github.com/gputrain/gputrain/tools/secretvet@latest ./...
//
// It is a module of its own: programs that use gputrain do not get what it needs.
package main

import "golang.org/x/tools/go/analysis/multichecker"

func main() { multichecker.Main(Analyzer) }
