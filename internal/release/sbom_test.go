package release_test

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"hermesd/internal/release"
)

var build = sync.OnceValues(func() (*debug.BuildInfo, error) {
	dir, err := os.MkdirTemp("", "hermesd-release-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "make.exe")
	if out, err := exec.Command("go", "build", "-o", path, "./make").CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("go build: %w: %s", err, out), os.RemoveAll(dir))
	}
	info, err := buildinfo.ReadFile(path)
	return info, errors.Join(err, os.RemoveAll(dir))
})

// built returns the build information of the program that creates releases.
func built(t *testing.T) *debug.BuildInfo {
	t.Helper()
	info, err := build()
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Deps) == 0 {
		t.Fatal("the linker names no modules")
	}
	own := *info
	return &own
}

func inventory(t *testing.T, info *debug.BuildInfo) []byte {
	t.Helper()
	bom, err := release.Inventory(release.Program{Name: "hermesd", Version: "v1.2.3", SHA256: strings.Repeat("ab", 32), Time: when}, info)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := release.WriteInventory(&b, bom); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// moduleDir returns the directory of a module.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Skipf("go list: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// schema returns the schema of CycloneDX with the schemas that it refers to.
func schema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	dir := filepath.Join(moduleDir(t, "github.com/CycloneDX/cyclonedx-go"), "schema")
	load := func(name string) *jsonschema.Schema {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		var s jsonschema.Schema
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return &s
	}
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := load("bom-1.6.schema.json").Resolve(&jsonschema.ResolveOptions{
		Loader: func(uri *url.URL) (*jsonschema.Schema, error) {
			stem := strings.TrimSuffix(filepath.Base(uri.Path), ".schema.json")
			for _, f := range found {
				if strings.HasPrefix(f.Name(), stem+".schema") {
					return load(f.Name()), nil
				}
			}
			return nil, fmt.Errorf("there is no %s", uri)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

func TestTheInventoryIsWhatCycloneDXWants(t *testing.T) {
	info, s := built(t), schema(t)
	raw := inventory(t, info)
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(doc); err != nil {
		t.Errorf("%v\n%s", err, raw)
	}
	doc["serialNumber"] = "7"
	if s.Validate(doc) == nil {
		t.Error("the schema takes anything")
	}
}

func TestTheInventoryNamesAllThatIsLinked(t *testing.T) {
	info := built(t)
	var doc struct {
		SerialNumber string
		Metadata     struct {
			Timestamp string
			Component struct{ Name, Version string }
		}
		Components []struct {
			Name, Version, Purl string
			Hashes              []struct{ Alg, Content string }
		}
		Dependencies []struct {
			Ref       string
			DependsOn []string
		}
	}
	raw := inventory(t, info)
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	if c := doc.Metadata.Component; c.Name != "hermesd" || c.Version != "v1.2.3" || doc.Metadata.Timestamp != "2026-01-02T03:04:06Z" {
		t.Errorf("it is about %+v", doc.Metadata)
	}
	if std := doc.Components[0]; std.Purl != "pkg:golang/std@"+strings.TrimPrefix(strings.Fields(runtime.Version())[0], "go") {
		t.Errorf("the standard library is %+v", std)
	}
	for i, m := range info.Deps {
		c := doc.Components[i+1]
		if c.Name != m.Path || c.Version != m.Version || len(c.Hashes) != 1 || len(c.Hashes[0].Content) != 64 {
			t.Errorf("%s %s is %+v", m.Path, m.Version, c)
		}
	}
	if of := doc.Dependencies[0]; of.Ref != "hermesd@v1.2.3" || len(of.DependsOn) != len(info.Deps)+1 {
		t.Errorf("the program is made of %+v", of)
	}
	if !bytes.Equal(raw, inventory(t, built(t))) {
		t.Error("the same program has two inventories")
	}
	info.Deps = nil
	if other := inventory(t, info); strings.Contains(string(other), doc.SerialNumber) {
		t.Error("another program has the same serial number")
	}
	info.Deps = []*debug.Module{{Path: "a", Version: "v1", Replace: &debug.Module{Path: "../a"}}}
	if _, err := release.Inventory(release.Program{}, info); err == nil || !strings.Contains(err.Error(), "no checksum") {
		t.Errorf("a replaced module: %v", err)
	}
}

func TestEveryWorkComesWithItsLicence(t *testing.T) {
	if _, err := os.Stat(filepath.Join(goRoot(t), "LICENSE")); err != nil {
		t.Skip("this Go comes without its licence")
	}
	info := built(t)
	text, err := release.Licences(t.Context(), ".", info)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range append(slices.Clone(info.Deps), &debug.Module{Path: "Go standard library,", Version: info.GoVersion}) {
		if !strings.Contains(text, "\n"+m.Path+" "+m.Version+": ") {
			t.Errorf("%s %s has none", m.Path, m.Version)
		}
	}
	if !strings.Contains(text, "Redistribution and use in source and binary forms") {
		t.Error("the words are missing")
	}
	info.Deps = []*debug.Module{{Path: "example.org/nobody", Version: "v1.0.0"}}
	if _, err := release.Licences(t.Context(), ".", info); err == nil || !strings.Contains(err.Error(), "example.org/nobody") {
		t.Errorf("a module that is not there: %v", err)
	}
}

// goRoot returns GOROOT.
func goRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("go env: %v", err)
	}
	return strings.TrimSpace(string(out))
}
