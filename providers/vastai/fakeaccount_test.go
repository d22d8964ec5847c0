package vastai

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

func (f *fake) listKeys(c *fakecloud.Call) fakecloud.Answer {
	all := []row{}
	for _, k := range f.keys.All(c) {
		all = append(all, row{"id": k["id"], "user_id": 456, f.keyField: k["text"], "created_at": "2026-08-07T10:00:00"})
	}
	if len(all) == 0 {
		return fakecloud.Reply(404, "")
	}
	return fakecloud.Reply(200, all)
}

func (f *fake) addKey(c *fakecloud.Call) fakecloud.Answer {
	text := input(c)["ssh_key"].(string)
	for _, k := range f.keys.All(nil) {
		if strings.Fields(k["text"].(string))[1] == strings.Fields(text)[1] {
			return fakecloud.Reply(200, row{"success": false, "error": "duplicate"})
		}
	}
	if f.bareKeys {
		text = strings.Join(strings.Fields(text)[:2], " ")
	}
	k := f.putKey(c, text)
	return fakecloud.Reply(200, row{"success": true, "key": row{"id": k["id"], "user_id": 456, "public_key": text, "created_at": "2026-08-07T10:00:00"}})
}

func (f *fake) putKey(c *fakecloud.Call, text string) row {
	f.lastID++
	k := row{"id": f.lastID, "text": text}
	f.keys.Put(c, strconv.Itoa(f.lastID), k)
	return k
}

func (f *fake) deleteKey(c *fakecloud.Call) fakecloud.Answer {
	if !f.keys.Delete(c, c.Vars["id"]) {
		return failure(400, "no_ssh_key", "No ssh key provided")
	}
	return success()
}

func (f *fake) listNetworks(c *fakecloud.Call) fakecloud.Answer {
	return fakecloud.Reply(200, f.networks.All(c))
}

func (f *fake) addNetwork(c *fakecloud.Call) fakecloud.Answer {
	in := input(c)
	f.lastID++
	f.networks.Put(c, strconv.Itoa(f.lastID), row{
		"overlay_id": f.lastID, "name": in["name"], "subnet": "10.0.0.0/24", "cluster_id": asInt(in["cluster_id"]), "instance_count": 0, "instances": []int{},
	})
	return success()
}

func (f *fake) deleteNetwork(c *fakecloud.Call) fakecloud.Answer {
	id := strconv.Itoa(asInt(input(c)["overlay_id"]))
	n, ok := f.networks.Get(nil, id)
	if !ok {
		return failure(400, "not_found", "no such overlay")
	}
	members, _ := n["instances"].([]int)
	for _, member := range slices.Clone(members) { // Vast ends them with the network
		f.end(c, strconv.Itoa(member))
	}
	f.networks.Delete(c, id)
	return success()
}

// networkOf returns the network that a create asks for, or nil, and whether it exists.
func (f *fake) networkOf(create row) (network row, known bool) {
	env, _ := create["env"].(row)
	for flag := range env {
		name, asked := strings.CutPrefix(flag, "-n ")
		if !asked {
			continue
		}
		all := f.networks.All(nil)
		i := slices.IndexFunc(all, func(n row) bool { return n["name"] == name })
		if i < 0 {
			return nil, false
		}
		return all[i], true
	}
	return nil, true
}

// connect makes the machine report an address on the network, and another outside.
func (r *rental) connect(n int) {
	if r.machine == nil {
		return
	}
	text := fmt.Sprintf(`#!/bin/sh
case "$*" in
*"dev eth0") echo '7: eth0    inet 10.0.0.%d/24 brd 10.0.0.255 scope global eth0' ;;
*"dev eth1") echo '9: eth1    inet 172.18.0.3/16 brd 172.18.255.255 scope global eth1' ;;
*) exit 1 ;;
esac
`, n)
	if err := os.WriteFile(filepath.Join(filepath.Dir(r.machine.Home), "bin", "ip"), []byte(text), 0o700); err != nil {
		panic(err)
	}
}

func setMembers(network row, ids []int) {
	network["instances"], network["instance_count"] = ids, len(ids)
}
