package scaleway

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

const (
	testKey     = "5ec2e700-1234-4321-8888-0123456789ab"
	testProject = "11111111-1111-1111-1111-111111111111"
	testOrg     = "22222222-2222-2222-2222-222222222222"
	testImage   = "0f1e2d3c-1111-4222-8333-444455556666"
	testZone    = "fr-par-2"

	serverPath = "/instance/v1/zones/{zone}/servers"
	blockPath  = "/block/v1/zones/{zone}/volumes"

	opProducts     = "GET /instance/v1/zones/{zone}/products/servers"
	opStock        = "GET /instance/v1/zones/{zone}/products/servers/availability"
	opImages       = "GET /marketplace/v2/local-images"
	opCreate       = "POST " + serverPath
	opServers      = "GET " + serverPath
	opServer       = "GET " + serverPath + "/{server_id}"
	opUpdate       = "PATCH " + serverPath + "/{server_id}"
	opDelete       = "DELETE " + serverPath + "/{server_id}"
	opAction       = "POST " + serverPath + "/{server_id}/action"
	opUserData     = "PATCH " + serverPath + "/{server_id}/user_data/{key}"
	opGetUserData  = "GET " + serverPath + "/{server_id}/user_data/{key}"
	opVolumes      = "GET " + blockPath
	opZoneImages   = "GET /instance/v1/zones/{zone}/images"
	opGroups       = "GET /instance/v1/zones/{zone}/security_groups"
	opQuota        = "GET /iam/v1alpha1/quota"
	opTagVolume    = "PATCH " + blockPath + "/{volume_id}"
	opDeleteVolume = "DELETE " + blockPath + "/{volume_id}"
)

type row = cloudtest.Row

// A fake is Scaleway's APIs over one project.
type fake struct {
	*fakecloud.Server
	t        *testing.T
	servers  *fakecloud.Store[*fakeServer]
	volumes  *fakecloud.Store[row] // by their IDs
	products map[string]row        // of every zone in stocked
	stocked  []string
	labels   map[string][]string // the types that an image is for, by its label
	made     int

	// Quirks, which tests set within Do.
	room       int               // how many more servers can start; negative means no limit
	quota      int               // how many servers of a type a zone may have; negative means no limit
	unread     bool              // the key may not read quotas
	ownImages  map[string]string // zones of images of the project, by ID
	stall      bool              // started servers stay in starting
	unpriced   bool              // products have no price
	shortage   string            // a type that is out of stock
	failsLater bool              // an accepted start ends as stopped
	fallsBack  bool              // a starting server is reported as starting once, and then as stopped
	pageSize   int               // of lists of products
	quiet      int               // how many reads of fingerprints find none; negative means all
	replaced   bool              // the image makes its own host keys, and publishes those
	unfiltered bool              // lists of volumes ignore the tag
	letGo      int               // how many deletions of a volume are too early
}

type fakeServer struct {
	row      row
	zone     string
	userData string
	machine  *fakecloud.Machine
	looks    int // reads of its fingerprints
	ending   int // reads of it until it is gone
}

func startFake(t *testing.T) *fake {
	f := &fake{t: t, room: -1, quota: -1, pageSize: 2, letGo: 1, stocked: []string{testZone}}
	f.Server = fakecloud.Start(t, fakecloud.Config{
		Contracts:    []fakecloud.Contract{fakecloud.OpenAPI(t, "testdata/api.json")},
		Authorized:   fakecloud.KeyHeader("X-Auth-Token", testKey),
		Public:       []string{opProducts, opStock},
		Unauthorized: failure(401, "denied_authentication", "authentication is denied", row{"method": "api_key", "reason": "invalid_argument"}),
		Refused: func(status int, complaint string) fakecloud.Answer {
			return failure(status, "invalid_arguments", complaint, nil)
		},
	})
	f.servers, f.volumes = fakecloud.NewStore[*fakeServer](f.Server), fakecloud.NewStore[row](f.Server)
	f.products = map[string]row{
		"L4-1-24G":     gpuProduct(0.7875, 8, 48, "L4", 1, 24),
		"L4-2-24G":     gpuProduct(1.575, 16, 96, "L4", 2, 24),
		"H100-1-80G":   gpuProduct(2.8665, 24, 240, "H100-PCIe", 1, 80),
		"DEV1-S":       {"hourly_price": 0.0088, "ncpus": 2, "ram": 2 << 30, "arch": "x86_64", "gpu": nil, "end_of_service": false},
		"COPARM1-2C8G": {"hourly_price": 0.0426, "ncpus": 2, "ram": 8 << 30, "arch": "arm64", "gpu": 0, "end_of_service": false},
		"GPU-3070-S":   merged(gpuProduct(0.98, 8, 16, "RTX3070", 1, 8), row{"end_of_service": true}),
	}
	gpus := []string{"L4-1-24G", "L4-2-24G", "H100-1-80G"}
	f.labels = map[string][]string{"ubuntu_noble_gpu_os_13_nvidia": gpus, "ubuntu_noble": append([]string{"DEV1-S"}, gpus...), "ubuntu_jammy": {"COPARM1-2C8G"}}
	f.handleCatalogue()
	f.handleAccount()
	f.handleServers()
	f.handleActions()
	f.handleVolumes()
	return f
}

func gpuProduct(eur float64, cpus, ram int, name string, n, memory int) row {
	return row{
		"hourly_price": eur, "ncpus": cpus, "ram": ram << 30, "arch": "x86_64", "gpu": n, "end_of_service": false,
		"gpu_info": row{"gpu_manufacturer": "NVIDIA", "gpu_name": name, "gpu_memory": memory << 30},
	}
}

func merged(a, b row) row {
	a = maps.Clone(a)
	maps.Copy(a, b)
	return a
}

func (f *fake) config() Config {
	return Config{SecretKey: testKey, ProjectID: testProject, Zone: testZone, Endpoint: f.URL}
}

func failure(status int, kind, message string, more row) fakecloud.Answer {
	return fakecloud.Reply(status, merged(row{"type": kind, "message": message}, more))
}

func unknown(id string) fakecloud.Answer {
	return failure(404, "unknown_resource", fmt.Sprintf("%q not found", id), nil)
}

// page returns one page of a list, and the total, which the API for instances sends in a
// header.
func page[T any](c *fakecloud.Call, all []T, most int) (items []T, total string) {
	n, _ := strconv.Atoi(c.Query.Get("page"))
	size, _ := strconv.Atoi(c.Query.Get("per_page"))
	size = min(size, most)
	from := min((n-1)*size, len(all))
	return all[from:min(from+size, len(all))], strconv.Itoa(len(all))
}

func (f *fake) handleCatalogue() {
	paged := func(c *fakecloud.Call, of func(name string) row) fakecloud.Answer {
		if !slices.Contains(f.stocked, c.Vars["zone"]) {
			return fakecloud.Reply(200, row{"servers": row{}}).With("X-Total-Count", "0")
		}
		names, total := page(c, slices.Sorted(maps.Keys(f.products)), f.pageSize)
		servers := row{}
		for _, name := range names {
			servers[name] = of(name)
		}
		return fakecloud.Reply(200, row{"servers": servers}).With("X-Total-Count", total)
	}
	f.Handle(opProducts, func(c *fakecloud.Call) fakecloud.Answer {
		return paged(c, func(name string) row {
			if f.unpriced {
				return merged(f.products[name], row{"hourly_price": 0})
			}
			return f.products[name]
		})
	})
	f.Handle(opStock, func(c *fakecloud.Call) fakecloud.Answer {
		return paged(c, func(name string) row {
			if name == f.shortage {
				return row{"availability": "shortage"}
			}
			return row{"availability": "available"}
		})
	})
	f.Handle(opImages, func(c *fakecloud.Call) fakecloud.Answer {
		label, zone := c.Query.Get("image_label"), c.Query.Get("zone")
		images := []row{}
		if types := f.labels[label]; types != nil {
			images = append(images, row{"id": imageID(zone, label), "compatible_commercial_types": types, "arch": "x86_64", "zone": zone, "label": label, "type": "instance_sbs"})
		}
		return fakecloud.Reply(200, row{"local_images": images, "total_count": len(images)})
	})
}

// handleAccount answers about the account: its images, its organization and its quotas.
func (f *fake) handleAccount() {
	f.Handle(opZoneImages, func(c *fakecloud.Call) fakecloud.Answer {
		all := []row{}
		if c.Query.Get("public") == "true" {
			for _, label := range DefaultImages() {
				all = append(all, row{"id": imageID(c.Vars["zone"], label), "name": label, "public": true, "zone": c.Vars["zone"]})
			}
		} else {
			for _, id := range slices.Sorted(maps.Keys(f.ownImages)) {
				if f.ownImages[id] == c.Vars["zone"] && c.Query.Get("project") == testProject {
					all = append(all, row{"id": id, "name": "own", "public": false, "project": testProject, "zone": c.Vars["zone"]})
				}
			}
		}
		items, total := page(c, all, f.pageSize)
		return fakecloud.Reply(200, row{"images": items}).With("X-Total-Count", total)
	})
	f.Handle(opGroups, func(c *fakecloud.Call) fakecloud.Answer {
		all := []row{}
		if c.Query.Get("project") == testProject && slices.Contains(f.stocked, c.Vars["zone"]) {
			all = append(all, row{"id": newID(0x5ec, 1), "name": "Default security group", "organization": testOrg, "project": testProject, "project_default": true})
		}
		return fakecloud.Reply(200, row{"security_groups": all}).With("X-Total-Count", strconv.Itoa(len(all)))
	})
	f.Handle(opQuota, func(c *fakecloud.Call) fakecloud.Answer {
		if f.unread || c.Query.Get("organization_id") != testOrg {
			return failure(403, "permissions_denied", "insufficient permissions", row{"details": []row{{"resource": "quota", "action": "read"}}})
		}
		all := []row{{"name": "cp_ips", "pretty_name": "IPs", "unit": "", "locality_type": "global", "limits": []row{{"global": true, "limit": 5}}}}
		for _, kind := range slices.Sorted(maps.Keys(f.products)) {
			limit := row{"zone": testZone, "limit": max(f.quota, 0)}
			if f.quota < 0 {
				limit = row{"zone": testZone, "unlimited": true}
			}
			all = append(all, row{"name": "cp_servers_type_" + strings.ReplaceAll(kind, "-", "_"), "locality_type": "zone", "limits": []row{limit}})
		}
		return fakecloud.Reply(200, row{"quota": all, "total_count": len(all)})
	})
}

// imageID returns the ID of an image, which differs between zones.
func imageID(zone, label string) string {
	n := slices.Index(zones, zone)*10 + slices.Index(DefaultImages(), label)
	return fmt.Sprintf("%s%04d", testImage[:32], n)
}

func newID(kind, n int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", kind, n) }

func hasTag(c *fakecloud.Call, tags any) bool {
	have, _ := json.Marshal(tags)
	for want := range strings.SplitSeq(c.Query.Get("tags"), ",") {
		if want != "" && !strings.Contains(string(have), strconv.Quote(want)) {
			return false
		}
	}
	return true
}
