// Package bench compares gputrain with OpenSSH, golang.org/x/crypto/ssh, GNU parallel, pdsh, rsync, net/rpc, bigmachine
// and dask. Each does the same work on the same OpenSSH servers in the same run. The package has only tests: compare.sh
// runs them at full size and prints one table, and go test runs them all at a size that takes seconds, so that they
// keep working. README.md describes what is measured and how.
package bench
