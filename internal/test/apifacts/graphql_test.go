package apifacts

import (
	"slices"
	"strings"
	"testing"
)

const pods = `
# A comment.
schema { query: Query mutation: Mutation }
type Query { pod("Which." id: String!): Pod users: [User!] }
type Mutation { stop(in: Stop): Boolean }
"A pod." type Pod { id: String! state: State }
enum State { UP # it runs
  DOWN }
type User { id: String! }
input Stop { id: String! }
`

const podsFacts = `type Pod {
	id: String!
	state: State
}
type Query {
	pod(id: String!): Pod
}
enum State {
	DOWN
	UP
}
`

func TestFactsOfGraphQL(t *testing.T) {
	if got, err := fromGraphQL(pods, `type Query { pod: Int }`); err != nil || got != podsFacts {
		t.Errorf("%v\n%s", err, got)
	}
	if _, err := fromGraphQL(pods, `type Query { pods: Int }`); err == nil || !strings.Contains(err.Error(), "no Query.pods") {
		t.Error(err)
	}
	changed := strings.NewReplacer("state: State", "status: State", "DOWN", "OFF", "id: String!):", "id: Int):").Replace(podsFacts)
	want := []string{
		`/Pod/state: "State" -> nothing`, `/Pod/status: nothing -> "State"`, `/Query/pod(id): "String!" -> "Int"`,
		`/State/DOWN: "value" -> nothing`, `/State/OFF: nothing -> "value"`,
	}
	if got := diff(tree(t, podsFacts), tree(t, changed), ""); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
