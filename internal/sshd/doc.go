// Package sshd is an SSH and SFTP server inside this program.
//
// A node of the local provider, and a machine of a fake cloud, is such a server. It answers the
// same requests as OpenSSH's server does, and its commands are real processes, so that the code
// that drives a node cannot distinguish the two. Clients reach it over any [net.Conn];
// [Server.Dial] makes a connection in memory.
//
// As with OpenSSH, a cut connection kills nothing: programs of its sessions lose their pipes and go
// on. Only [Server.Close] ends them.
//
// There is no terminal and no port forwarding, and only one user, the one that runs this program. A
// client may log in under any name: only its key matters.
package sshd
