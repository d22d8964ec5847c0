package scaleway

import (
	"fmt"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/sshkey"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/internal/currency"
)

func (f *fake) handleServers() {
	f.Handle(opCreate, func(c *fakecloud.Call) fakecloud.Answer {
		in := c.Input.(row)
		root, _ := in["volumes"].(row)["0"].(row)
		kind := fmt.Sprint(in["commercial_type"])
		switch {
		case f.quota >= 0 && f.count(c.Vars["zone"], kind) >= f.quota:
			return failure(403, "quotas_exceeded", "quota(s) exceeded for this resource", row{"details": []row{{"resource": "cp_servers_type_L4_1_24G", "quota": f.quota, "current": f.count(c.Vars["zone"], kind)}}})
		case f.products[kind] == nil, root["volume_type"] != "sbs_volume", in["project"] != testProject:
			return failure(400, "invalid_arguments", "invalid argument(s)", row{"details": []row{{"argument_name": "commercial_type", "reason": "unknown", "help_message": kind}}})
		}
		f.made++
		zone, vid := c.Vars["zone"], newID(0xb10c, f.made)
		s := &fakeServer{zone: zone, row: row{
			"id": newID(0x5e4, f.made), "name": in["name"], "project": testProject, "commercial_type": kind, "tags": in["tags"], "zone": zone,
			"state": "stopped", "state_detail": "", "creation_date": time.Now().UTC().Format(time.RFC3339Nano), "private_ip": nil, "public_ip": nil, "public_ips": []row{},
			"image":           row{"id": in["image"], "name": "Ubuntu", "zone": zone},
			"volumes":         row{"0": row{"id": vid, "volume_type": "sbs_volume", "state": "available", "zone": zone, "boot": false}},
			"allowed_actions": []string{"poweron", "backup"}, "protected": false,
		}}
		f.volumes.Put(c, vid, row{
			"id": vid, "name": "Ubuntu 24.04 Noble Numbat_sbs_volume_0", "type": "sbs_5k", "size": root["size"], "project_id": testProject, "status": "in_use", "zone": zone,
			"references": []row{}, "tags": []string{}, "specs": row{"perf_iops": 5000, "class": "sbs"}, "created_at": time.Now().UTC(), "updated_at": time.Now().UTC(),
		})
		f.servers.Put(c, s.row["id"].(string), s)
		return fakecloud.Reply(201, row{"server": s.row})
	})
	f.Handle(opServers, func(c *fakecloud.Call) fakecloud.Answer {
		all := []row{}
		for _, s := range f.servers.All(c) {
			mine := s.row["project"] == c.Query.Get("project") || c.Query.Get("organization") == testOrg
			kind := c.Query.Get("commercial_type")
			if s.zone == c.Vars["zone"] && mine && (kind == "" || kind == s.row["commercial_type"]) && hasTag(c, s.row["tags"]) {
				all = append(all, s.row)
			}
		}
		items, total := page(c, all, 100)
		return fakecloud.Reply(200, row{"servers": items}).With("X-Total-Count", total)
	})
	f.Handle(opServer, f.of(func(c *fakecloud.Call, s *fakeServer) fakecloud.Answer {
		if s.ending > 0 {
			if s.ending--; s.ending == 0 {
				f.drop(c, s)
				return unknown(c.Vars["server_id"])
			}
		}
		answer := fakecloud.Reply(200, row{"server": merged(s.row, nil)})
		switch {
		case s.row["state"] == "stopping" && s.ending == 0: // another program has powered it off
			s.row["state"] = "stopped"
		case s.row["state"] == "starting" && f.fallsBack:
			s.row["state"], s.row["state_detail"] = "stopped", "hypervisor failure"
		}
		return answer
	}))
	f.Handle(opUpdate, f.of(func(c *fakecloud.Call, s *fakeServer) fakecloud.Answer {
		s.row["tags"] = c.Input.(row)["tags"]
		return fakecloud.Reply(200, row{"server": s.row})
	}))
	f.Handle(opUserData, f.of(func(c *fakecloud.Call, s *fakeServer) fakecloud.Answer {
		if s.row["state"] != "stopped" || c.Vars["key"] != "cloud-init" {
			f.t.Errorf("user data %s of a server that is %v: it must precede the start", c.Vars["key"], s.row["state"])
		}
		s.userData = string(c.Body)
		return fakecloud.Reply(204, nil)
	}))
	f.Handle(opGetUserData, f.of(func(c *fakecloud.Call, s *fakeServer) fakecloud.Answer {
		s.looks++
		if s.machine == nil || c.Vars["key"] != "ssh-host-fingerprints" || f.quiet < 0 || s.looks <= f.quiet {
			return failure(404, "not_found", "user data not found", nil)
		}
		print, err := sshkey.Fingerprint(s.machine.HostKey)
		if err != nil {
			f.t.Error(err)
		}
		return fakecloud.Reply(200, fmt.Sprintf("256 MD5:aa:bb root@%s (ED25519)\n256 %s root@%[1]s (ED25519)\n", s.row["name"], print))
	}))
}

// count returns the number of servers of a type in a zone.
func (f *fake) count(zone, kind string) (n int) {
	for _, s := range f.servers.All(nil) {
		if s.zone == zone && s.row["commercial_type"] == kind {
			n++
		}
	}
	return n
}

// of wraps a handler for an existing server.
func (f *fake) of(h func(*fakecloud.Call, *fakeServer) fakecloud.Answer) fakecloud.Handler {
	return func(c *fakecloud.Call) fakecloud.Answer {
		s, ok := f.servers.Get(c, c.Vars["server_id"])
		if !ok || s.zone != c.Vars["zone"] {
			return unknown(c.Vars["server_id"])
		}
		return h(c, s)
	}
}

func (f *fake) handleActions() {
	task := func(what string) fakecloud.Answer {
		return fakecloud.Reply(202, row{"task": row{"id": newID(0x7a5c, f.made), "description": what, "progress": 0, "status": "pending"}})
	}
	f.Handle(opAction, f.of(func(c *fakecloud.Call, s *fakeServer) fakecloud.Answer {
		switch action := c.Input.(row)["action"]; {
		case c.Missing():
			if s.row["state"] != "running" { // only reads still show it: its volume is detached
				f.detachVolumes(c, s)
			}
			return unknown(c.Vars["server_id"])
		case c.Undone():
			return task(fmt.Sprintf("server_%v", action))
		case action == "poweron" && s.row["state"] == "stopped":
			if f.room == 0 {
				return failure(503, "out_of_stock", "resource out of stock", row{"resource": s.row["commercial_type"]})
			}
			f.room--
			if !f.failsLater {
				f.boot(s)
			}
			return task("server_batch_poweron")
		case action == "poweroff" && s.row["state"] == "stopped in place":
			s.row["state"] = "stopping"
			return task("server_poweroff")
		case action == "terminate" && s.row["state"] != "stopped" && s.row["state"] != "stopped in place":
			if s.ending == 0 {
				s.ending, s.row["state"], s.row["state_detail"] = 2, "stopping", "terminating"
			}
			return task("server_terminate")
		}
		return failure(400, "invalid_arguments", "invalid argument(s)", row{"details": []row{{"argument_name": "action", "reason": "constraint", "help_message": fmt.Sprint(s.row["state"])}}})
	}))
	f.Handle(opDelete, f.of(func(c *fakecloud.Call, s *fakeServer) fakecloud.Answer {
		switch {
		case c.Missing():
			return unknown(c.Vars["server_id"])
		case s.row["state"] != "stopped":
			return failure(400, "invalid_arguments", "instance should be powered off", nil)
		case !c.Undone():
			f.drop(c, s)
		}
		return fakecloud.Reply(204, nil)
	}))
}

// boot starts the machine of a server.
func (f *fake) boot(s *fakeServer) {
	s.row["state"], s.row["state_detail"] = "starting", "allocating node"
	if f.stall || f.fallsBack {
		return
	}
	cfg := fakecloud.MachineConfig{}
	if f.replaced {
		pair, err := ssh.NewKeyPair()
		if err != nil {
			f.t.Fatal(err)
		}
		cfg.HostKey = string(pair.Private)
	}
	s.machine = cloudtest.Boot(f.t, s.userData, cfg)
	s.row["state"], s.row["state_detail"] = "running", "booted"
	s.row["public_ips"] = []row{
		{"id": newID(6, f.made), "address": "2001:db8::1", "family": "inet6", "dynamic": true, "state": "attached"},
		{"id": newID(5, f.made), "address": s.machine.PublicIP, "family": "inet", "dynamic": true, "state": "attached"},
	}
}

// drop ends a server, which detaches its volumes.
func (f *fake) drop(c *fakecloud.Call, s *fakeServer) {
	f.servers.Delete(c, s.row["id"].(string))
	f.detachVolumes(c, s)
	if s.machine != nil {
		s.machine.Kill()
	}
}

// detachVolumes detaches the volumes of a server.
func (f *fake) detachVolumes(c *fakecloud.Call, s *fakeServer) {
	for _, v := range s.row["volumes"].(row) {
		id := v.(row)["id"].(string)
		if v, ok := f.volumes.Get(nil, id); ok {
			f.volumes.Put(c, id, merged(v, row{"status": "available", "let_go": f.letGo}))
		}
	}
}

func (f *fake) handleVolumes() {
	shown := func(v row) row {
		v = merged(v, nil)
		delete(v, "let_go")
		return v
	}
	f.Handle(opVolumes, func(c *fakecloud.Call) fakecloud.Answer {
		all := []row{}
		for _, v := range f.volumes.All(c) {
			if v["zone"] == c.Vars["zone"] && v["project_id"] == c.Query.Get("project_id") && (f.unfiltered || hasTag(c, v["tags"])) {
				all = append(all, shown(v))
			}
		}
		return fakecloud.Reply(200, row{"volumes": all, "total_count": len(all)})
	})
	f.Handle(opTagVolume, func(c *fakecloud.Call) fakecloud.Answer {
		v, ok := f.volumes.Get(c, c.Vars["volume_id"])
		if !ok {
			return failure(404, "not_found", "resource is not found", nil)
		}
		v = merged(v, row{"tags": c.Input.(row)["tags"]})
		f.volumes.Put(c, c.Vars["volume_id"], v)
		return fakecloud.Reply(200, shown(v))
	})
	f.Handle(opDeleteVolume, func(c *fakecloud.Call) fakecloud.Answer {
		id := c.Vars["volume_id"]
		v, ok := f.volumes.Get(c, id)
		left, _ := v["let_go"].(int)
		switch {
		case !ok:
			return failure(404, "not_found", "resource is not found", nil)
		case v["status"] == "in_use" || left > 0:
			f.volumes.Put(c, id, merged(v, row{"let_go": left - 1}))
			return failure(412, "precondition_failed", "resource is still in use", row{"precondition": "resource_still_in_use", "help_message": ""})
		}
		f.volumes.Delete(c, id)
		return fakecloud.Reply(204, nil)
	})
}

// set changes fields of a server.
func (f *fake) set(id string, changed row) {
	_, uuid, err := split(id)
	f.Do(func() {
		s, ok := f.servers.Get(nil, uuid)
		if err != nil || !ok {
			f.t.Fatalf("there is no server %q", id)
		}
		for k, v := range changed {
			s.row[k] = v
		}
	})
}

// account returns all things in the project.
func (f *fake) account() (all []driver.Resource) {
	f.Do(func() {
		for _, s := range f.servers.All(nil) {
			name := s.row["name"].(string)
			all = append(all, driver.Resource{Kind: "machine", ID: s.zone + "/" + s.row["id"].(string), Name: trimPrefix(name)})
		}
		for _, v := range f.volumes.All(nil) {
			all = append(all, driver.Resource{Kind: "volume", ID: v["zone"].(string) + "/" + v["id"].(string), Name: v["name"].(string)})
		}
	})
	return all
}

// meters returns the servers as Scaleway's meter reads them, in dollars of the driver's usual rate.
func (f *fake) meters() (all []fakecloud.Metered) {
	rate, err := currency.Of("EUR", 0)
	if err != nil {
		f.t.Error(err)
	}
	for _, s := range f.servers.All(nil) {
		all = append(all, fakecloud.Metered{
			ID: s.row["id"].(string), State: s.row["state"].(string), HourlyUSD: f.products[s.row["commercial_type"].(string)]["hourly_price"].(float64) * rate.USD,
		})
	}
	return all
}
