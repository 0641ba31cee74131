package redact_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hermesd/agent/engine/internal/redact"
)

func TestSecretsAreTakenOut(t *testing.T) {
	for in, gone := range map[string]string{
		"the key is sk-" + "ant-abcdefghijklmnop1234 ok":                      "abcdefghijklmnop",
		"export GITHUB=ghp_abcdefghijklmnopqrstuvwxyz0123":                    "ghp_",
		"Authorization: Bearer abcdefghijklmnopqrstuvwx":                      "abcdefgh",
		"postgres://me:hunter22@db/x":                                         "hunter22",
		`{"password": "correct-horse"}`:                                       "correct",
		"AKIAABCDEFGHIJKLMNOP":                                                "AKIA",
		"12345678:AAaaBBbbCCccDDddEEeeFFffGGggHHhhIIi":                        "AAaaBB",
		"-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----": "abc",
	} {
		out := redact.Text(in)
		if strings.Contains(out, gone) || !strings.Contains(out, redact.Placeholder) || redact.Text(out) != out {
			t.Errorf("%q became %q", in, out)
		}
	}
	for _, in := range []string{"", "the token count is 200", "say sk-8 to me", "see https://example.com/a:b", "비밀번호를 바꿨어요"} {
		if out := redact.Text(in); out != in {
			t.Errorf("%q became %q", in, out)
		}
	}
}

func TestHintsMissNothing(t *testing.T) {
	pieces := []string{
		"-----BEGIN RSA PRIVATE KEY-----", "-----END PRIVATE KEY-----", "sk-", "pk_live_", "RK-", "rk-or-", "ghp_", "ghs_", "github_pat_", "glpat-",
		"xoxb-", "xapp-", "AKIA", "ASIA", "AIza", "12345678:", "eyJ", ".", "Bearer ", "BASIC ", "ba\u017fic ", "://me:", "@", "PassWord", "pa\u017f\u017fwd",
		"secret", "to\u212aen", "Token", "api_key", "APIKEY", "access-key", "acce\u017fs_key", "=", ": ", "\"", " ", "\n", "abcdefgh", "ABCDEFGH01234567",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "秘密", "\xff",
	}
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 12).Draw(t, "pieces"), "")
		if got, want := redact.Text(s), redact.Thorough(s); got != want {
			t.Fatalf("%q became %q, want %q", s, got, want)
		}
	})
}
