// Package userns finds the settings of the kernel that keep programs without privileges
// from creating user namespaces, which the better sandboxes need. The function is
// [Restrictions].
package userns

import (
	"os"
	"path/filepath"
	"strings"
)

// Proc is the directory with the settings of the kernel.
const Proc = "/proc/sys"

// A Restriction is a setting that forbids user namespaces.
type Restriction struct {
	Cause string
	Fix   string // what the operator can do
}

// Restrictions returns the restrictions that are in effect. proc is Proc, except in
// tests.
func Restrictions(proc string) (found []Restriction) {
	if RestrictedByAppArmor(proc) {
		found = append(found, Restriction{
			"AppArmor keeps programs without a profile from creating user namespaces (kernel.apparmor_restrict_unprivileged_userns = 1)",
			"`hermesd service install` installs a profile for hermesd, or prints the commands that do; where AppArmor has a profile for bubblewrap, `sudo apt install bubblewrap` is enough",
		})
	}
	if value(proc, "user/max_user_namespaces") == "0" {
		found = append(found, Restriction{
			"the kernel allows no user namespaces (user.max_user_namespaces = 0)",
			"`sudo sysctl -w user.max_user_namespaces=10000`, and the same setting in a file of /etc/sysctl.d",
		})
	}
	if value(proc, "kernel/unprivileged_userns_clone") == "0" {
		found = append(found, Restriction{
			"the kernel allows user namespaces only for root (kernel.unprivileged_userns_clone = 0)",
			"`sudo sysctl -w kernel.unprivileged_userns_clone=1`, and the same setting in a file of /etc/sysctl.d; or `sudo apt install bubblewrap`",
		})
	}
	return found
}

// RestrictedByAppArmor reports whether only programs with a profile that allows it may
// create user namespaces.
func RestrictedByAppArmor(proc string) bool {
	return value(proc, "kernel/apparmor_restrict_unprivileged_userns") == "1"
}

// value returns the value of a setting, "" if the kernel does not have it.
func value(proc, name string) string {
	raw, err := os.ReadFile(filepath.Join(proc, filepath.FromSlash(name)))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}
