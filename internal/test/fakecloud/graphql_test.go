package fakecloud

import (
	"encoding/json"
	"testing"
)

func gql(query string, variables any) string {
	b, _ := json.Marshal(map[string]any{"query": query, "variables": variables})
	return string(b)
}

const podQuery = `query($id:String!){pod(input:{podId:$id}){id name status:desiredStatus runtime{ports{ip privatePort}}}}`

func pods(t *testing.T) Contract { return GraphQL(t, "testdata/pods.graphql", "/graphql") }

func TestGraphQLRequests(t *testing.T) {
	type vars = map[string]any
	rent := `mutation($in:PodRentInterruptableInput!){podRentInterruptable(input:$in){id costPerHr}}`
	in := vars{"name": "n", "imageName": "i", "gpuTypeId": "g", "gpuCount": 1, "bidPerGpu": 0.2}
	try(t, pods(t), []trial{
		{"good query", "POST", "/graphql", gql(podQuery, vars{"id": "p1"}), ""},
		{"good mutation", "POST", "/graphql", gql(rent, vars{"in": in}), ""},
		{"unknown field", "POST", "/graphql", gql(`{myself{id balance}}`, nil), "balance"},
		{"unknown query", "POST", "/graphql", gql(`{podz{id}}`, nil), "podz"},
		{"unknown argument", "POST", "/graphql", gql(`{pod(input:{id:"p"}){id}}`, nil), "id"},
		{"unknown input field", "POST", "/graphql", gql(rent, vars{"in": vars{"gpuType": "g", "name": "n"}}), "gpuType"},
		{"wrong type", "POST", "/graphql", gql(podQuery, vars{"id": 1}), "id"},
		{"missing variable", "POST", "/graphql", gql(podQuery, nil), "must be defined"},
		{"unknown variable", "POST", "/graphql", gql(podQuery, vars{"id": "p", "x": 1}), "unknown variable x"},
		{"two fields", "POST", "/graphql", gql(`{myself{id} countryCodes}`, nil), "one field"},
		{"no query", "POST", "/graphql", gql(`{`, nil), "Expected"},
		{"GET", "GET", "/graphql", "", "POST"},
		{"elsewhere", "POST", "/graph", gql(podQuery, nil), "GraphQL is at /graphql"},
	})
}

func TestGraphQLAnswers(t *testing.T) {
	type tr = struct {
		answer    Answer
		complaint string
	}
	type object = map[string]any
	g := pods(t)
	request := trial{method: "POST", path: "/graphql", body: gql(podQuery, object{"id": "p1"})}
	pod := object{"id": "p1", "name": "n", "desiredStatus": "RUNNING", "gpuCount": 1, "runtime": object{"ports": []any{object{"ip": "127.0.0.1", "privatePort": 22}}}}
	answers(t, g, request, map[string]tr{
		"good":          {Reply(200, pod), ""},
		"unknown pod":   {Reply(200, nil), ""},
		"invented":      {Reply(200, object{"id": "p1", "state": "up"}), "pod.state: unknown field"},
		"no ID":         {Reply(200, object{"name": "n"}), "pod.id: null"},
		"wrong type":    {Reply(200, object{"id": 1}), "not of type String"},
		"wrong enum":    {Reply(200, object{"id": "p1", "desiredStatus": "UP"}), "not of type PodStatus"},
		"not a list":    {Reply(200, object{"id": "p1", "runtime": object{"ports": 22}}), "not a list"},
		"not an object": {Reply(200, "p1"), ""}, // text is sent unchanged
		"error":         {GraphQLError("SUPPLY_CONSTRAINT", "none left"), ""},
	})
	c := request.call(t)
	if err := g.Find(c); err != nil {
		t.Fatal(err)
	}
	a, err := g.Encode(c, Reply(200, pod))
	const want = `{"data":{"pod":{"id":"p1","name":"n","runtime":{"ports":[{"ip":"127.0.0.1","privatePort":22}]},"status":"RUNNING"}}}`
	if err != nil || string(a.Body.([]byte)) != want {
		t.Errorf("got %s, %v", a.Body, err)
	}
	if err := g.Check(c); err != nil {
		t.Fatal(err)
	}
	var args struct{ Input struct{ PodID string } }
	c.Decode(&args)
	if args.Input.PodID != "p1" {
		t.Errorf("the handler gets %+v", c.Input)
	}
}
