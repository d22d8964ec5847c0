package kubernetes

import (
	"crypto/rand"
	"fmt"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
)

var oneA100 = gputrain.Spec{Accelerator: accelerators.A100()}

// addPods adds pods of other tools, with a GPU each. The state must be locked.
func (f *fake) addPods(n int, class string) {
	for i := range n {
		name := fmt.Sprintf("other-%d-%s", i, rand.Text()[:4])
		p := &pod{Metadata: meta{Name: name, UID: rand.Text()}, Status: podStatus{Phase: "Pending"}, Spec: podSpec{
			PriorityClassName: class,
			Containers: []container{{Name: "main", Image: "other", Resources: resources{
				Requests: map[string]string{"cpu": "1", "memory": "1Gi", nvidiaResource: "1"}, Limits: map[string]string{nvidiaResource: "1"},
			}}},
		}}
		f.pods[name] = p
	}
	f.schedule()
}

// without takes a right away.
func (f *fake) without(verb, resource string) {
	f.Do(func() {
		for i, u := range f.rules {
			for _, r := range u.Resources {
				if r == resource {
					f.rules[i].Verbs = remove(u.Verbs, verb)
				}
			}
		}
	})
}

func remove(all []string, one string) (rest []string) {
	for _, s := range all {
		if s != one {
			rest = append(rest, s)
		}
	}
	return rest
}
