package secret_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hermesd/internal/secret"
)

// TestWhatIsShownOfGrowingTextStays checks that text without its pending bytes is masked
// to a prefix of the masked whole text.
func TestWhatIsShownOfGrowingTextStays(t *testing.T) {
	secrets := []secret.Value{"aabaabaab", "abaabaabaaba", "quote\"d-secret", "baabbaab"}
	var m secret.Masker
	m.Add(secrets...)
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "x", string(secrets[0]), string(secrets[1]), string(secrets[2]), `quote\"d-secret`, string(secrets[3])}), 0, 8).Draw(t, "parts")
		whole := strings.Join(parts, "")
		cut := rapid.IntRange(0, len(whole)).Draw(t, "cut")
		head := whole[:cut]
		shown := m.Mask(head[:len(head)-m.Pending(head)])
		if !strings.HasPrefix(m.Mask(whole), shown) {
			t.Fatalf("%q shows %q, the whole is %q", head, shown, m.Mask(whole))
		}
	})
}

func TestMaskFindsSecretsInJSON(t *testing.T) {
	const value = `p"a<s>s&word`
	var m secret.Masker
	m.Add(value)
	for _, s := range []string{value, `p\"a<s>s&word`, `p\"a\u003cs\u003es\u0026word`} {
		if got := m.Mask("x " + s + " y"); got != "x <secret> y" {
			t.Errorf("%s is masked as %q", s, got)
		}
	}
}
