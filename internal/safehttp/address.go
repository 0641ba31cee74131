package safehttp

import (
	"net/netip"
	"strings"
)

// reserved are the networks that are not the public internet, by the registries
// of special-purpose addresses, and a few public addresses at which clouds keep
// secrets. IPv6 outside 2000::/3 is refused as a whole and not listed.
var reserved = prefixes(
	"0.0.0.0/8",        // this host, this network
	"10.0.0.0/8",       // private
	"100.64.0.0/10",    // shared by carriers; metadata of Alibaba
	"127.0.0.0/8",      // loopback
	"168.63.129.16/32", // metadata of Azure
	"169.254.0.0/16",   // link-local; metadata of most clouds
	"172.16.0.0/12",    // private
	"192.0.0.0/24",     // protocol assignments; metadata of Oracle
	"192.0.2.0/24",     // documentation
	"192.88.99.0/24",   // relays of 6to4
	"192.168.0.0/16",   // private
	"198.18.0.0/15",    // benchmarks
	"198.51.100.0/24",  // documentation
	"203.0.113.0/24",   // documentation
	"224.0.0.0/4",      // multicast
	"240.0.0.0/4",      // reserved, broadcast
	"2001::/23",        // protocol assignments, with Teredo
	"2001:db8::/32",    // documentation
	"3fff::/20",        // documentation
)

var (
	global = netip.MustParsePrefix("2000::/3")
	sixTo4 = netip.MustParsePrefix("2002::/16")
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
)

func prefixes(list ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(list))
	for i, s := range list {
		all[i] = netip.MustParsePrefix(s)
	}
	return all
}

// Public says that an address belongs to the public internet: not private,
// loopback, link-local, shared, multicast, unspecified, reserved, or a place of
// cloud metadata; nor an IPv6 address that leads to such an IPv4 address.
func Public(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	for _, p := range reserved {
		if p.Contains(a) {
			return false
		}
	}
	if a.Is4() {
		return true
	}
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return Public(netip.AddrFrom4([4]byte(b[12:])))
	case !global.Contains(a):
		return false
	case sixTo4.Contains(a):
		return Public(netip.AddrFrom4([4]byte(b[2:])))
	case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP
		return Public(netip.AddrFrom4([4]byte(b[12:])))
	}
	return true
}

// checkHost refuses a host by its name alone, as far as that can be told: an
// address that is not public, an address in an unusual form, and names that mean
// this machine or its network.
func checkHost(host string) error {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" {
		return refuse(host, "there is no host in it")
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if !Public(a) {
			return refuse(host, "it is not an address of the public internet")
		}
		return nil
	}
	if number(host[strings.LastIndexByte(host, '.')+1:]) {
		return refuse(host, "it is an address in an unusual form")
	}
	for _, local := range []string{"localhost", "localdomain", "local", "internal", "intranet", "lan", "home.arpa"} {
		if host == local || strings.HasSuffix(host, "."+local) {
			return refuse(host, "it is a name of the local network")
		}
	}
	return nil
}

// number says that a label is decimal, octal or hexadecimal: old resolvers take
// a name that ends in one for an IPv4 address.
func number(label string) bool {
	digits := "0123456789"
	if rest, ok := strings.CutPrefix(label, "0x"); ok {
		label, digits = rest, "0123456789abcdef"
	}
	return strings.Trim(label, digits) == ""
}

// checkForeign refuses what checkHost refuses, and names of which only a proxy
// will know where they lead: those without a dot, and those that are not ASCII,
// which may turn into anything.
func checkForeign(host string) error {
	if err := checkHost(host); err != nil {
		return err
	}
	for _, c := range []byte(host) {
		if c >= 0x80 {
			return refuse(host, "behind a proxy, names must be written in ASCII (xn--…)")
		}
	}
	if !strings.ContainsAny(strings.TrimSuffix(host, "."), ".:") {
		return refuse(host, "it is a name of the local network")
	}
	return nil
}
