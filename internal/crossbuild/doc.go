// Package crossbuild builds the program that is running again, for another
// platform, so that nodes of that platform can serve its functions.
//
// The Go toolchain does it, from the sources that the program itself was built
// from: its build information names main package, module, versions and flags,
// and its own line tables name the source files. What cannot be shown to be the
// same program is an error, never a guess: another module, other versions of
// what it depends on, sources changed since.
//
// Workspaces (go.work, GOWORK), vendor folders, -tags and what -ldflags set by -X
// are those of the program. Two settings cannot be: a program that was built with
// -trimpath notes no -ldflags, so that what -X set is as the source has it in the
// result; and C code is left out.
//
// The result is static (CGO_ENABLED=0) and kept by its content below the user's
// cache folder.
package crossbuild
