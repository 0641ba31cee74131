package cmdpolicy_test

import (
	"strings"
	"testing"

	"hermesd/agent/cmdpolicy"
)

func TestDenied(t *testing.T) {
	patterns := []string{"git push --force*", "sudo *", "dd if=* of=/dev/*", "npm run [dp]*", "docker", "*shred*", "/opt/bin/x *"}
	for command, want := range map[string]string{
		"git push --force origin main":         "git push --force*",
		"git push origin main":                 "",
		"GIT Push --FORCE":                     "git push --force*",
		`git pu"sh" --force`:                   "git push --force*",
		"cd a && git\tpush   --force":          "git push --force*",
		"true; /usr/bin/sudo -n id":            "sudo *",
		"echo $(sudo id)":                      "sudo *",
		"bash -c 'sudo id'":                    "sudo *",
		"echo 'sudo -n id'":                    "",
		"env A=b nohup git push --force":       "git push --force*",
		"X=push; git $X --force":               "git push --force*",
		"git $X --force":                       "git push --force*", // not known: it may be
		"dd if=/dev/zero of=/dev/sda":          "dd if=* of=/dev/*",
		"npm run deploy":                       "npm run [dp]*",
		"npm run test":                         "",
		"docker":                               "docker",
		"docker ps":                            "",
		"echo shred":                           "*shred*",
		"/opt/bin/x y":                         "/opt/bin/x *",
		"/usr/bin/x y":                         "",
		"":                                     "",
		"ls | xargs sudo rm":                   "sudo *",
		strings.Repeat("a", 70<<10) + "; ls x": "",
	} {
		if got := cmdpolicy.Evaluate(command, cmdpolicy.Place{}).Denied(command, patterns); got != want {
			t.Errorf("%.60q is denied by %q, want %q", command, got, want)
		}
	}
	for _, p := range []string{"[", "[]", "[!", "a[b", "\xff*", "\\", "[\\]", "(?i)", "[z-a]"} {
		cmdpolicy.Evaluate("ls", cmdpolicy.Place{}).Denied("ls", []string{p}) // does not panic
	}
	at := cmdpolicy.Place{Instructs: func(p string) bool { return strings.HasSuffix(p, "AGENTS.md") }}
	for command, want := range map[string]cmdpolicy.Decision{"echo x >> AGENTS.md": cmdpolicy.Ask, "cp a sub/AGENTS.md": cmdpolicy.Ask, "cat AGENTS.md": cmdpolicy.Run, "echo x > a.md": cmdpolicy.Run} {
		if v := cmdpolicy.Evaluate(command, at); v.Decision != want {
			t.Errorf("%s is %s: %v", command, v.Decision, v.Reasons)
		}
	}
}
