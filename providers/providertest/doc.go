// Package providertest is what every provider promises, as a test suite. A
// provider runs it against a fake of its API, or against the real thing where
// that is on this machine:
//
//	func TestMain(m *testing.M) {
//		gputrain.Init() // the suite runs a function on the nodes
//		os.Exit(m.Run())
//	}
//
//	func TestConformance(t *testing.T) {
//		providertest.Run(t, func(t *testing.T) providertest.Harness {
//			f := startFake(t) // of which Server is one of StartServer
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
//				Without:  map[string]string{"Stall": "machines of this cloud boot before they are told of"},
//				// and so on: see Harness
//			}
//		})
//	}
//
// [StartServer] and [NewMachine] are the parts of a fake: an API, and machines that are
// real SSH nodes. testdata/outside is a provider of another module with such a fake.
//
// Run starts the fake anew for each check. A failure names the check, and the
// method of [gputrain.Driver] whose comment asks for what was not there.
//
// What a fake does not offer leaves out the checks that need it, and
// Harness.Without has to say why, and the check is skipped with that: what is left out
// without a reason fails. Harness.Live, or Account, cannot be left out: that machines are
// gone is not believed to the driver alone. A
// provider with an API and a fake of it leaves out next to nothing.
//
// The suite works in real time, or in virtual time where nothing of a provider
// is outside the program ([RunInBubble]). It waits for nothing but what happens,
// so a provider under test has its pauses between attempts set short.
package providertest
