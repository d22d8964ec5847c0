// Package fakecloud is the kit from which tests make fakes of clouds' APIs.
//
// A fake is a [Server] with handlers for an API's operations. What a request may
// hold and what an answer may is for the vendor's own description to say, a
// [Contract] read from ../shared/contracts: [OpenAPI], [Discovery] (Google),
// [EC2] (AWS) or [GraphQL]. A request with a misspelt field fails the test, and so
// does a handler that invents one. What the vendor leaves out of the description
// although the service has it is stepped over where it is named: [AllowFields],
// [Undescribed], [Unchecked].
//
// A fake keeps its state in a [Store], goes wrong as a [Fault] says, and boots a
// [Machine] for every instance: a real SSH server with real processes, so that a
// test goes from opening a pool to a command's output.
//
//	api := fakecloud.Start(t, fakecloud.Config{
//		Contracts:  []fakecloud.Contract{fakecloud.OpenAPI(t, "lambda/lambda-lifecycle-3.0.derived.json")},
//		Authorized: fakecloud.Bearer("sk-test"),
//	})
//	type server struct {
//		id      string
//		machine *fakecloud.Machine
//	}
//	servers := fakecloud.NewStore[server](api)
//	api.Handle("POST /api/v1/instance-operations/launch", func(c *fakecloud.Call) fakecloud.Answer {
//		s := server{id: fmt.Sprintf("%032x", c.N), machine: fakecloud.NewMachine(t, fakecloud.MachineConfig{AuthorizedKey: key, User: "ubuntu"})}
//		servers.Put(c, s.id, s)
//		return fakecloud.Reply(200, map[string]any{"data": map[string]any{"instance_ids": []string{s.id}}})
//	})
//
//	// The third launch has its effect, and its answer is lost.
//	api.Inject(fakecloud.Fault{Op: "POST /api/v1/instance-operations/launch", Skip: 2, After: true, Cut: true})
//
// kit_test.go has the whole of it. The package is for tests only.
package fakecloud
