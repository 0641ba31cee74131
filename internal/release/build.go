package release

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Variables that change what the compiler makes, so that none of the person's
// own may be in effect. What says where things are fetched from or kept stays.
var chosen = []string{
	"CGO_ENABLED", "GOOS", "GOARCH", "GOFLAGS", "GOEXPERIMENT", "GOWORK", "GODEBUG", "GOFIPS140",
	"GOAMD64", "GOARM", "GOARM64", "GO111MODULE", "GCCGO", "CC", "CXX",
}

// environment returns the variables for building, with more of the form K=V.
// cache is where compiled packages are kept; "" leaves it where it is.
func environment(cache string, more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(chosen, name)
	})
	// -mod=readonly: go.sum decides what is built.
	env = append(env, "GOFLAGS=-mod=readonly", "GOWORK=off", "GOAMD64=v1", "GOARM=6", "GOARM64=v8.0")
	if cache != "" {
		env = append(env, "GOCACHE="+cache)
	}
	return append(env, more...)
}

// A builder compiles the files in dir.
type builder struct {
	dir    string
	cache  string
	source Source
}

// program writes the program for a target to path.
func (b builder) program(ctx context.Context, t Target, path string) error {
	env := environment(b.cache, "CGO_ENABLED=0", "GOOS="+t.OS, "GOARCH="+t.Arch)
	_, err := command(ctx, b.dir, env, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w "+b.stamp(), "-o", path, "./cmd/hermesd")
	return err
}

// host writes a program for this machine to path, which says the same as those
// that are handed out. It may be made of what other builds have left in the cache.
func (b builder) host(ctx context.Context, path string) error {
	_, err := command(ctx, b.dir, environment(b.cache), "go", "build", "-buildvcs=false", "-ldflags", b.stamp(), "-o", path, "./cmd/hermesd")
	return err
}

// stamp has the linker write into the program what it is.
func (b builder) stamp() string {
	return "-X main.version=" + b.source.Version + " -X main.commit=" + b.source.Commit + " -X main.date=" + b.source.Time.Format(time.RFC3339)
}

// goes answers whether a program for t can be started here.
func (t Target) goes() bool { return t.OS == runtime.GOOS && t.Arch == runtime.GOARCH }

// shells are the files with completions, and what `hermesd completion` calls
// the shell of each.
var shells = map[string]string{"hermesd.bash": "bash", "_hermesd": "zsh", "hermesd.fish": "fish", "hermesd.ps1": "powershell"}

// describe has program, which must run here, write the manual pages and the
// completions into dir, after it has proven that it is what it should be.
func (b builder) describe(ctx context.Context, program, dir string) error {
	env := append(environment(""), "HERMES_HOME="+filepath.Join(dir, "no-home"))
	told, err := command(ctx, dir, env, program, "version", "--json")
	if err != nil {
		return err
	}
	var is struct{ Version, Commit, Time string }
	if err := json.Unmarshal([]byte(told), &is); err != nil {
		return fmt.Errorf("hermesd version --json: %w", err)
	}
	if want := b.source.Time.Format(time.RFC3339); is.Version != b.source.Version || is.Commit != b.source.Commit || is.Time != want {
		return fmt.Errorf("the program says that it is %+v, and should be %s of %s, %s; the linker does not find its variables", is, b.source.Version, b.source.Commit, want)
	}
	if _, err := command(ctx, dir, env, program, "man", "--dir", filepath.Join(dir, "man", "man1")); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "completions"), 0o755); err != nil {
		return err
	}
	for file, shell := range shells {
		script, err := command(ctx, dir, env, program, "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "completions", file), []byte(script), 0o600); err != nil {
			return err
		}
	}
	return nil
}
