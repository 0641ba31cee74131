package safehttp

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// reserved lists the networks that are not public according to the IANA registries of
// special-purpose addresses, and a few public addresses of cloud metadata services. IPv6
// addresses outside 2000::/3 are all rejected and not listed.
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

// Public reports whether an address belongs to the public internet: it is not private,
// loopback, link-local, shared, multicast, unspecified, reserved or a cloud metadata
// address, and not an IPv6 address that embeds such an IPv4 address.
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

// checkHost returns an error for a host that can be rejected by its name alone: an address
// that is not public, an address in an unusual form, and names of this machine or its
// network.
func checkHost(host string) error {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" {
		return refusedError(host, "there is no host in it")
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if !Public(a) {
			return refusedError(host, "it is not an address of the public internet")
		}
		return nil
	}
	if isNumberLabel(host[strings.LastIndexByte(host, '.')+1:]) {
		return refusedError(host, "it is an address in an unusual form")
	}
	if LocalName(host) {
		return refusedError(host, "it is a name of the local network")
	}
	return nil
}

// localNames lists the names, and the domains, of this machine, of its network and of the
// metadata services of clouds.
var localNames = []string{
	"localhost", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback", "localdomain", "local", "internal", "intranet", "lan", "home.arpa",
	"metadata", "instance-data", "metadata.goog", "metadata.tencentyun.com",
}

// LocalName reports whether a host name belongs to this machine, to its network or to the
// metadata service of a cloud. Names are not resolved.
func LocalName(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return slices.ContainsFunc(localNames, func(local string) bool {
		return host == local || strings.HasSuffix(host, "."+local)
	})
}

// Readings returns the addresses that programs may take a host for: an address in its usual
// form, and IPv4 addresses in the forms of inet_aton, which are decimal, octal, hexadecimal
// and of fewer than four parts. Programs differ in whether 010 is 8 or 10; both are returned.
func Readings(host string) []netip.Addr {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}
	}
	var all []netip.Addr
	for _, octal := range []bool{true, false} {
		if a, ok := parseParts(strings.Split(host, "."), octal); ok && !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// parseParts parses the parts of an IPv4 address; the last one fills the bytes that are left.
func parseParts(parts []string, octal bool) (netip.Addr, bool) {
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var sum uint64
	for i, p := range parts {
		base, digits := 10, p
		switch {
		case strings.HasPrefix(p, "0x") || strings.HasPrefix(p, "0X"):
			base, digits = 16, p[2:]
		case octal && len(p) > 1 && p[0] == '0':
			base = 8
		}
		n, err := strconv.ParseUint(digits, base, 32)
		last := i == len(parts)-1
		if err != nil || !last && n > 0xff || last && n >= 1<<(8*(5-len(parts))) {
			return netip.Addr{}, false
		}
		if last {
			sum |= n
		} else {
			sum |= n << (8 * (3 - i))
		}
	}
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}), true
}

// isNumberLabel reports whether a label is decimal, octal or hexadecimal. Old resolvers
// interpret a name that ends in such a label as an IPv4 address.
func isNumberLabel(label string) bool {
	digits := "0123456789"
	if rest, ok := strings.CutPrefix(label, "0x"); ok {
		label, digits = rest, "0123456789abcdef"
	}
	return strings.Trim(label, digits) == ""
}

// checkProxiedHost returns an error for hosts rejected by checkHost, and for names whose
// resolution only the proxy knows: names without a dot, and names that are not ASCII,
// which the proxy may convert in any way.
func checkProxiedHost(host string) error {
	if err := checkHost(host); err != nil {
		return err
	}
	for _, c := range []byte(host) {
		if c >= 0x80 {
			return refusedError(host, "behind a proxy, names must be written in ASCII (xn--…)")
		}
	}
	if !strings.ContainsAny(strings.TrimSuffix(host, "."), ".:") {
		return refusedError(host, "it is a name of the local network")
	}
	return nil
}
