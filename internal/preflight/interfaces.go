package preflight

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// A network is an interface's part of a network: its own address there, or, if only routes tell, the whole of it.
type network struct {
	name   string
	prefix netip.Prefix
}

// held are the addresses of a node's interfaces.
type held struct {
	own    []network    // with the interface's own address
	routes []network    // IPv4 networks by their routes, for a node that has neither ip nor ifconfig
	local  []netip.Addr // the node's own IPv4 addresses, if the interfaces are known by routes alone
}

// interfaces reads the sections of a node's facts that tell its addresses: those of ip, else of ifconfig, else of /proc.
func interfaces(s map[string][]string) (h held) {
	for _, line := range s["ip"] { // 2: eth0    inet 10.0.0.4/24 brd ...
		words := strings.Fields(line)
		if len(words) > 3 && (words[2] == "inet" || words[2] == "inet6") {
			name, _, _ := strings.Cut(words[1], "@")
			h.add(name, words[3])
		}
	}
	if h.own == nil {
		h.ifconfig(s["ifconfig"])
	}
	if h.own == nil {
		h.proc(s)
	}
	return h
}

func (h *held) add(name, addr string) {
	if prefix, err := netip.ParsePrefix(addr); err == nil {
		h.own = append(h.own, network{name, prefix})
	} else if a, err := netip.ParseAddr(addr); err == nil {
		h.own = append(h.own, network{name, netip.PrefixFrom(a, a.BitLen())})
	}
}

// ifconfig reads what it prints, in its newer form (inet 10.0.0.4) and in its older one (inet addr:10.0.0.4).
func (h *held) ifconfig(lines []string) {
	name := ""
	for _, line := range lines {
		words := strings.Fields(line)
		if line[0] != ' ' && line[0] != '\t' && len(words) > 0 {
			name = strings.TrimSuffix(words[0], ":")
		}
		for i, word := range words[:max(len(words)-1, 0)] {
			if word == "inet" || word == "inet6" {
				next := words[i+1]
				if next == "addr:" && i+2 < len(words) {
					next = words[i+2]
				}
				h.add(name, strings.TrimPrefix(next, "addr:"))
			}
		}
	}
}

// proc reads the kernel's tables.
func (h *held) proc(s map[string][]string) {
	for _, line := range s["inet6"] { // fe80... 02 40 20 80 eth0
		words := strings.Fields(line)
		if len(words) == 6 {
			raw, err := hex.DecodeString(words[0])
			if addr, ok := netip.AddrFromSlice(raw); ok && err == nil {
				h.add(words[5], addr.String())
			}
		}
	}
	for _, line := range s["route"] { // eth0 00000A0A 00000000 0001 0 0 0 00FFFFFF 0 0 0
		words := strings.Fields(line)
		if len(words) < 8 {
			continue
		}
		to, err := strconv.ParseUint(words[1], 16, 32)
		mask, err2 := strconv.ParseUint(words[7], 16, 32)
		if err != nil || err2 != nil || mask == 0 {
			continue
		}
		var raw, bits [4]byte
		binary.LittleEndian.PutUint32(raw[:], uint32(to))
		binary.LittleEndian.PutUint32(bits[:], uint32(mask))
		ones := 0
		for b := binary.BigEndian.Uint32(bits[:]); b&(1<<31) != 0; b <<= 1 {
			ones++
		}
		h.routes = append(h.routes, network{words[0], netip.PrefixFrom(netip.AddrFrom4(raw), ones)})
	}
	last := ""
	for _, line := range s["trie"] { // |-- 10.0.0.4, and in the next line: /32 host LOCAL
		words := strings.Fields(line)
		switch {
		case len(words) == 2 && words[0] == "|--":
			last = words[1]
		case len(words) == 3 && words[0] == "/32" && words[2] == "LOCAL":
			if addr, err := netip.ParseAddr(last); err == nil && !slices.Contains(h.local, addr) {
				h.local = append(h.local, addr)
			}
		}
	}
}

// holding returns the name of the interface that holds an address, or "".
func (h held) holding(text string) string {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return ""
	}
	for _, n := range h.own {
		if n.prefix.Addr().WithZone("") == addr.WithZone("") {
			return n.name
		}
	}
	if !slices.Contains(h.local, addr) {
		return ""
	}
	if addr.IsLoopback() {
		return "lo"
	}
	best := network{}
	for _, n := range h.routes {
		if n.prefix.Contains(addr) && n.prefix.Bits() >= best.prefix.Bits() {
			best = n
		}
	}
	return best.name
}

// count returns how many interfaces have addresses, without the loopback interface.
func (h held) count() int {
	names := map[string]bool{}
	for _, n := range slices.Concat(h.own, h.routes) {
		if !n.prefix.Addr().IsLoopback() && !n.prefix.Addr().IsLinkLocalUnicast() {
			names[n.name] = true
		}
	}
	return len(slices.Collect(maps.Keys(names)))
}
