// Package crossbuild builds the running program again for another platform, so that nodes of that
// platform can serve its functions.
//
// The Go toolchain builds it from the program's own sources: the build information names the main
// package, module, versions and flags. The sources are
//
//   - for a released version, those of the module with the checksum that the program has;
//   - otherwise those in the folder that the program's own line tables name, if only this
//     user and root can change it, its files, and what decides how they are built
//     (go.mod, go.sum, go.work, vendor, modules that are replaced by folders), and if no
//     file is newer than the program;
//   - or those in a folder that the caller names, and is responsible for.
//
// No sources are searched for in the working directory, nor in the program's folder. A program that
// was built with -trimpath has no folders in its line tables, so the caller must name one. If the
// result cannot be shown to be the same program, that is an error, never a guess: another module,
// other versions of its dependencies, or sources that have changed since.
//
// The go command gets only the environment variables that it needs. It runs no version control,
// whose settings could start programs.
//
// Workspaces (go.work, GOWORK), vendor folders, -tags, and values that -ldflags sets by -X are the
// program's. There are two exceptions: a program that was built with -trimpath has no record of its
// -ldflags, so variables set by -X have the values of the source; and C code is left out.
//
// The result is static (CGO_ENABLED=0), and is stored by its content below the user's cache folder.
package crossbuild
