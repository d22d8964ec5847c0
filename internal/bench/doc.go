// Package bench compares gputrain with OpenSSH, golang.org/x/crypto/ssh, GNU
// parallel, pdsh, rsync, net/rpc, bigmachine and dask, each doing the same work
// on the same OpenSSH servers in the same run. It holds tests only: compare.sh
// runs them at full size and prints one table, and go test runs all of it at a
// size that takes seconds, so that it stays true. README.md says what is
// measured and how.
package bench
