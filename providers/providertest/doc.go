// Package providertest tests what every provider promises. A provider runs the suite against a
// fake of its API, or against the real thing if that is on this machine:
//
//	func TestMain(m *testing.M) {
//		gputrain.Init() // the suite runs a function on the nodes
//		os.Exit(m.Run())
//	}
//
//	func TestConformance(t *testing.T) {
//		providertest.Run(t, func(t *testing.T) providertest.Harness {
//			f := startFake(t) // f.Server is from StartServer
//			fault, calls := providertest.OnServer(f.Server, map[providertest.Op][]string{
//				providertest.OpLaunch: {"POST /servers"},
//				// and so on: the create alone for launch
//			})
//			return providertest.Harness{
//				Provider: acme.Config{APIKey: "sk-test", Endpoint: f.URL},
//				Account:  f.account,
//				Fault:    fault,
//				Calls:    calls,
//				Secrets:  []string{"sk-test"},
//				Without:  map[string]string{"Stall": "machines of this cloud boot before they are reported"},
//				// and so on: see Harness
//			}
//		})
//	}
//
// [StartServer] and [NewMachine] are the parts of a fake: an API, and machines that are real
// SSH nodes. testdata/outside is a provider of another module with such a fake.
//
// Run starts a new fake for each check. If fakes share nothing, use [RunParallel], which runs
// several checks at a time. A failure names the check, and the method of
// [driver.Driver] whose comment contains the promise.
//
// A check is skipped if the fake lacks a hook for it and Harness.Without has the reason;
// without a reason it fails. Harness.Live or Account is mandatory: the driver's word alone
// does not prove that machines are gone. A provider with a fake of its API can run nearly all
// checks.
//
// The suite works in real time, or in virtual time if a provider is entirely inside the program
// ([RunInBubble]). It waits only for events, so a provider under test should have short pauses
// between attempts.
package providertest
