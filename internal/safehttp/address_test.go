package safehttp_test

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hermesd/internal/safehttp"
)

func TestPublic(t *testing.T) {
	for addr, want := range map[string]bool{
		"1.1.1.1":         true,
		"93.184.216.34":   true,
		"172.15.0.1":      true,
		"172.32.0.1":      true,
		"100.63.0.1":      true,
		"100.128.0.1":     true,
		"192.0.1.1":       true,
		"223.255.255.255": true,

		"0.0.0.0":         false,
		"0.1.2.3":         false,
		"10.0.0.1":        false,
		"10.255.255.255":  false,
		"100.64.0.1":      false,
		"100.100.100.200": false,
		"127.0.0.1":       false,
		"127.255.255.254": false,
		"168.63.129.16":   false,
		"169.254.169.254": false,
		"172.16.0.1":      false,
		"172.31.255.255":  false,
		"192.0.0.192":     false,
		"192.0.2.1":       false,
		"192.168.1.1":     false,
		"198.18.0.1":      false,
		"198.51.100.1":    false,
		"203.0.113.1":     false,
		"224.0.0.1":       false,
		"239.255.255.255": false,
		"240.0.0.1":       false,
		"255.255.255.255": false,

		"2606:4700:4700::1111":     true,
		"2a00:1450:4001:830::200e": true,
		"::ffff:1.1.1.1":           true,
		"64:ff9b::101:101":         true,
		"2002:101:101::1":          true,

		"::":                       false,
		"::1":                      false,
		"::127.0.0.1":              false,
		"::ffff:127.0.0.1":         false,
		"::ffff:7f00:1":            false,
		"::ffff:10.0.0.1":          false,
		"::ffff:169.254.169.254":   false,
		"::ffff:0:127.0.0.1":       false,
		"64:ff9b::7f00:1":          false,
		"64:ff9b::a9fe:a9fe":       false,
		"64:ff9b::a00:1":           false,
		"64:ff9b:1::101:101":       false,
		"100::1":                   false,
		"2001::1":                  false,
		"2001:0:4136:e378::":       false,
		"2001:db8::1":              false,
		"2002:7f00:1::":            false,
		"2002:a9fe:a9fe::1":        false,
		"2002:c0a8:101::1":         false,
		"2a00::5efe:10.0.0.1":      false,
		"2a00::200:5efe:127.0.0.1": false,
		"3fff::1":                  false,
		"fc00::1":                  false,
		"fd00:ec2::254":            false,
		"fe80::1":                  false,
		"fe80::1%eth0":             false,
		"2606:4700::1%eth0":        false,
		"fec0::1":                  false,
		"ff02::1":                  false,
		"5f00::1":                  false,
	} {
		if got := safehttp.Public(netip.MustParseAddr(addr)); got != want {
			t.Errorf("Public(%s) = %v, want %v", addr, got, want)
		}
	}
	if safehttp.Public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

// An IPv4 address embedded in an IPv6 address in any form is not public unless the IPv4
// address itself is, and no address is public that the standard library calls private.
func TestPublicSeesThroughEmbedding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v4 := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "v4"))
		a := netip.AddrFrom4(v4)
		if (a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified()) && safehttp.Public(a) {
			t.Fatalf("%s is public", a)
		}
		mapped := netip.AddrFrom16(a.As16())
		nat := [16]byte{0, 0x64, 0xff, 0x9b, 12: v4[0], v4[1], v4[2], v4[3]}
		six := [16]byte{0x20, 2, v4[0], v4[1], v4[2], v4[3], 15: 1}
		for _, e := range []netip.Addr{mapped, netip.AddrFrom16(nat), netip.AddrFrom16(six)} {
			if safehttp.Public(e) != safehttp.Public(a) {
				t.Fatalf("%s is %v, but %s is %v", e, safehttp.Public(e), a, safehttp.Public(a))
			}
		}
	})
}

func TestControlLetsOnlyPublicAddressesThrough(t *testing.T) {
	for address, want := range map[string]bool{
		"1.1.1.1:443":                true,
		"[2606:4700:4700::1111]:443": true,
		"127.0.0.1:80":               false,
		"[::1]:80":                   false,
		"[::ffff:10.0.0.1]:80":       false,
		"[fe80::1%eth0]:80":          false,
		"localhost:80":               false,
		"":                           false,
	} {
		if err := safehttp.Control(t.Context(), "tcp", address, nil); (err == nil) != want {
			t.Errorf("%s: got %v", address, err)
		}
	}
	if err := safehttp.Control(t.Context(), "unix", "/run/docker.sock", nil); err == nil {
		t.Error("a socket file was let through")
	}
}

func TestReadings(t *testing.T) {
	for host, want := range map[string]string{
		"10.0.0.5": "10.0.0.5", "::1": "::1", "::ffff:10.0.0.5": "10.0.0.5", "127.1": "127.0.0.1", "2852039166": "169.254.169.254", "0xA9FEA9FE": "169.254.169.254",
		"0251.0376.0251.0376": "169.254.169.254", "169.254.43518": "169.254.169.254", "0": "0.0.0.0", "010.0.0.1": "8.0.0.1 10.0.0.1", "09.1.1.1": "9.1.1.1",
		"": "", "x.org": "", "1.2.3.4.5": "", "256.1": "", "127.0.0.256": "", "4294967296": "", "0x": "", "-1": "", "1..2": "", "127.0.0.1:80": "",
	} {
		var got []string
		for _, a := range safehttp.Readings(host) {
			got = append(got, a.String())
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q is read as %q, want %q", host, s, want)
		}
	}
}

func TestLocalName(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST.": true, "a.localhost": true, "ip6-localhost": true, "metadata": true, "metadata.google.internal": true, "nas.lan": true, "x.home.arpa": true,
		"x.org": false, "localhost.org": false, "mylocal": false, "": false,
	} {
		if got := safehttp.LocalName(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}
