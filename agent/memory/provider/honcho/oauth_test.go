package honcho_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	stdsync "sync"
	"testing"
	"testing/synctest"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/honcho"
	"hermesd/internal/secret"
	"hermesd/internal/sim/memory"
	sim "hermesd/internal/sim/memory/honcho"
)

// signedIn returns a server, a provider with its grant, and the path of the file.
func signedIn(t *testing.T) (*sim.Server, provider.Provider, string) {
	t.Helper()
	s := newServer(t, sim.Options{})
	access, refresh, ends := s.Grant()
	home := write(t, map[string]string{"honcho.json": fmt.Sprintf(`{
		"baseUrl": %q, "other": {"kept": true},
		"hosts": {"hermes": {"apiKey": %q, "workspace": "w", "oauth": {"refreshToken": %q, "expiresAt": %d, "clientId": "hermes-agent", "tokenEndpoint": "%s/oauth/token"}}, "hermes_x": {"apiKey": "x"}}
	}`, s.URL, access, refresh, ends.Unix(), s.URL)})
	p, _, err := honcho.Open(provider.Source{Secrets: new(secret.Masker), Home: home, Getenv: env("HOME", home), HTTP: s.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return s, p, filepath.Join(home, "honcho.json")
}

// file is what the tests read of the file.
type file struct {
	Other json.RawMessage
	Hosts map[string]struct {
		APIKey    string
		Workspace string
		OAuth     struct {
			RefreshToken, ClientID, TokenEndpoint, Scope string
			ExpiresAt                                    int64
		}
	}
}

func readFile(t *testing.T, path string) (f file) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err := errors.Join(err, json.Unmarshal(raw, &f)); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTokensAreReplacedBeforeTheirEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, path := signedIn(t)
		check := func() {
			t.Helper()
			if _, err := p.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		check()
		time.Sleep(57 * time.Minute)
		check()
		if n := s.Count("POST", "/oauth/token"); n != 0 {
			t.Fatalf("refreshed %d times", n)
		}
		time.Sleep(2 * time.Minute)
		var wg stdsync.WaitGroup
		for range 5 {
			wg.Go(check)
		}
		wg.Wait()
		if n := s.Count("POST", "/oauth/token"); n != 1 {
			t.Fatalf("refreshed %d times", n)
		}
		f := readFile(t, path)
		host := f.Hosts["hermes"]
		if host.APIKey != "hch-at-000002" || host.OAuth.RefreshToken != "hch-rt-000002" || host.OAuth.ExpiresAt != time.Now().Add(time.Hour).Unix() || host.OAuth.Scope != "write" {
			t.Errorf("stored %+v", host)
		}
		if host.Workspace != "w" || host.OAuth.ClientID != "hermes-agent" || host.OAuth.TokenEndpoint != s.URL+"/oauth/token" || string(f.Other) == "" || f.Hosts["hermes_x"].APIKey != "x" {
			t.Errorf("the rest of the file is now %+v", f)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		for range 3 { // each with the token of the last
			time.Sleep(59 * time.Minute)
			check()
		}
	})
}

func TestKeysAndTokensAreMasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, path := signedIn(t)
		masker := new(secret.Masker)
		p, _, err := honcho.Open(provider.Source{Home: filepath.Dir(path), Getenv: env("HOME", "/"), HTTP: s.Client(), Secrets: masker})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, err := p.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, token := range []string{"hch-at-000001", "hch-rt-000001", "hch-at-000002", "hch-rt-000002"} {
			if got := masker.Mask(token); got == token {
				t.Errorf("%s is not masked", token)
			}
		}
	})
}

func TestTokensOfAnotherProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, path := signedIn(t)
		access, refresh, ends := s.Grant() // ends the one that p has
		f := readFile(t, path)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		host := f.Hosts["hermes"]
		raw = []byte(strings.NewReplacer(host.APIKey, access, host.OAuth.RefreshToken, refresh, fmt.Sprint(host.OAuth.ExpiresAt), fmt.Sprint(ends.Unix())).Replace(string(raw)))
		if _, err := p.Check(t.Context()); provider.ClassOf(err) != provider.Auth {
			t.Errorf("with the old token: %v", err)
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Check(t.Context()); err != nil {
			t.Errorf("with the token of the file: %v", err)
		}
	})
}

func TestATokenThatIsRefusedIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, _ := signedIn(t)
		for n := 1; n <= 2; n++ {
			s.EndAccess()
			if _, err := p.Check(t.Context()); err != nil || s.Count("POST", "/oauth/token") != n {
				t.Errorf("%v, refreshed %d times", err, s.Count("POST", "/oauth/token"))
			}
		}
		s.Inject(memory.Fault{Kind: memory.Refuse, Status: 401, Path: "/v3", Times: -1}) // also with a new one
		if _, err := p.Check(t.Context()); provider.ClassOf(err) != provider.Auth || s.Count("POST", "/oauth/token") != 3 {
			t.Errorf("%v, refreshed %d times", err, s.Count("POST", "/oauth/token"))
		}
	})
}

func TestTokensThatCannotBeReplaced(t *testing.T) {
	for name, test := range map[string]struct {
		fault memory.Fault
		class provider.Class
	}{
		"refused":   {memory.Fault{Kind: memory.Refuse, Status: 400}, provider.Auth},
		"down":      {memory.Fault{Kind: memory.Page}, provider.Down},
		"no tokens": {memory.Fault{Kind: memory.Empty}, provider.Garbage},
		"too slow":  {memory.Fault{Delay: time.Hour}, provider.Down},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, p, path := signedIn(t)
			time.Sleep(time.Hour)
			before := readFile(t, path)
			test.fault.Path = "/oauth/token"
			s.Inject(test.fault)
			_, err := p.Check(t.Context())
			if e, ok := errors.AsType[*provider.Error](err); !ok || e.Class != test.class || strings.Contains(err.Error(), "hch-") {
				t.Errorf("%s: %v", name, err)
			}
			if after := readFile(t, path); after.Hosts["hermes"] != before.Hosts["hermes"] {
				t.Errorf("%s: the file was changed", name)
			}
			if _, err := p.Check(t.Context()); err != nil {
				t.Errorf("%s: afterwards %v", name, err)
			}
		})
	}
}

func TestTokensAreNotUsedUntilTheyAreStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, path := signedIn(t)
		time.Sleep(time.Hour)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(`{"hosts":`), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := p.Check(t.Context()); provider.ClassOf(err) != provider.Auth || s.Count("POST", "/v3/workspaces") != 0 {
				t.Errorf("%v, %d calls", err, s.Count("POST", "/v3/workspaces"))
			}
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Check(t.Context()); err != nil || readFile(t, path).Hosts["hermes"].APIKey != "hch-at-000002" || s.Count("POST", "/oauth/token") != 1 {
			t.Errorf("%v, refreshed %d times", err, s.Count("POST", "/oauth/token"))
		}
	})
}
