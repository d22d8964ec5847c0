// Package crossbuild builds the program that is running again, for another
// platform, so that nodes of that platform can serve its functions.
//
// The Go toolchain does it, from the sources that the program itself was built
// from: its build information names main package, module, versions and flags.
// The sources are
//
//   - for a released version those of the module whose checksum the program has;
//   - else those in the folder that the program's own line tables name, if only this
//     user and root can change it, its files, and what decides how they are built
//     (go.mod, go.sum, go.work, vendor, modules that are replaced by folders), and if no
//     file is newer than the program;
//   - or those in a folder that the caller names, and answers for.
//
// Nothing is looked for in the folder that the program is started in, or lies in: one
// built with -trimpath, which has no folders in its line tables, needs the third. What
// cannot be shown to be the same program is an error, never a guess: another module,
// other versions of what it depends on, sources changed since.
//
// The go command sees the variables that it reads, and no other of this process. It
// is asked for no version control, whose settings could run programs.
//
// Workspaces (go.work, GOWORK), vendor folders, -tags and what -ldflags set by -X
// are those of the program. Two settings cannot be: a program that was built with
// -trimpath notes no -ldflags, so that what -X set is as the source has it in the
// result; and C code is left out.
//
// The result is static (CGO_ENABLED=0) and kept by its content below the user's
// cache folder.
package crossbuild
