// Package livetest has the tests that rent real machines at the clouds. They run only
// where a variable says how much each may cost, in US dollars:
//
//	GPUTRAIN_LIVE=1.50 go test -v ./providers/livetest
//	GPUTRAIN_LIVE=1.50 go test -v -run TestLive/vastai ./providers/livetest
//
// Each wants its cloud's credentials in the environment, rents the cheapest machine that
// there is, and at last looks whether the account holds nothing of it. See
// [github.com/gputrain/gputrain/providers/providertest.Live].
package livetest
