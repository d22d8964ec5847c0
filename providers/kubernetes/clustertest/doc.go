// Package clustertest has the tests of providers/kubernetes on a real cluster: that of
// testdata/testbed, a control plane and two nodes in containers of the local engine,
// whose GPUs are counted and not there.
//
// They are skipped if the testbed's program has not been built here, which takes up to half an hour.
// scripts/kubernetes-test builds it, and runs them.
//
// All of them work with the rights of a service account that has exactly those of role.yaml.
package clustertest
