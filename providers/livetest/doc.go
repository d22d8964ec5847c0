// Package livetest has the tests that rent real machines at the clouds. They run only if a
// variable sets the maximum cost of each, in US dollars:
//
//	GPUTRAIN_LIVE=1.50 go test -v ./providers/livetest
//	GPUTRAIN_LIVE=1.50 go test -v -run TestLive/vastai ./providers/livetest
//
// Each needs its cloud's credentials in the environment, rents the cheapest machine, and at the
// end checks that the account holds nothing of it. See
// [github.com/gputrain/gputrain/providers/providertest.Live].
package livetest
