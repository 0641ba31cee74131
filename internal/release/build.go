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

// buildVariables lists the environment variables that influence compilation and are
// removed. Variables for download and cache locations are kept.
var buildVariables = []string{
	"CGO_ENABLED", "GOOS", "GOARCH", "GOFLAGS", "GOEXPERIMENT", "GOWORK", "GODEBUG", "GOFIPS140",
	"GOAMD64", "GOARM", "GOARM64", "GO111MODULE", "GCCGO", "CC", "CXX",
}

// environment returns the environment for builds, with more variables of the form K=V.
// cache is the build cache directory; "": the default one.
func environment(cache string, more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(buildVariables, name)
	})
	// -mod=readonly: go.sum determines what is built.
	env = append(env, "GOFLAGS=-mod=readonly", "GOWORK=off", "GOAMD64=v1", "GOARM=6", "GOARM64=v8.0")
	if cache != "" {
		env = append(env, "GOCACHE="+cache)
	}
	return append(env, more...)
}

// A builder compiles the module in dir.
type builder struct {
	dir    string
	cache  string
	source Source
}

// buildTarget builds the programs for a target in dir.
func (b builder) buildTarget(ctx context.Context, t Target, dir string) error {
	env := environment(b.cache, "CGO_ENABLED=0", "GOOS="+t.OS, "GOARCH="+t.Arch)
	args := []string{"build", "-tags", Tag, "-trimpath", "-buildvcs=false", "-ldflags", "-s -w " + b.ldflags(), "-o", dir + string(filepath.Separator)}
	for _, name := range programs {
		args = append(args, "./cmd/"+name)
	}
	_, err := runCommand(ctx, b.dir, env, "go", args...)
	return err
}

// buildHost builds hermesd for this machine at path, with the same version information
// as the released ones. It may use packages that other builds left in the cache.
func (b builder) buildHost(ctx context.Context, path string) error {
	_, err := runCommand(ctx, b.dir, environment(b.cache, "CGO_ENABLED=0"), "go", "build", "-tags", Tag, "-buildvcs=false", "-ldflags", b.ldflags(), "-o", path, "./cmd/hermesd")
	return err
}

// ldflags returns the linker flags that set the version information.
func (b builder) ldflags() string {
	return "-X main.version=" + b.source.Version + " -X main.commit=" + b.source.Commit + " -X main.date=" + b.source.Time.Format(time.RFC3339)
}

// runsHere reports whether a program for t runs on this machine.
func (t Target) runsHere() bool { return t.OS == runtime.GOOS && t.Arch == runtime.GOARCH }

// shells maps the completion files to the shell names of `hermesd completion`.
var shells = map[string]string{"hermesd.bash": "bash", "_hermesd": "zsh", "hermesd.fish": "fish", "hermesd.ps1": "powershell"}

// generateDocs writes the manual pages and completions to dir by running program, which
// must run on this machine, after checking its version information.
func (b builder) generateDocs(ctx context.Context, program, dir string) error {
	env := append(environment(""), "HERMES_HOME="+filepath.Join(dir, "no-home"))
	raw, err := runCommand(ctx, dir, env, program, "version", "--json")
	if err != nil {
		return err
	}
	var is struct{ Version, Commit, Time string }
	if err := json.Unmarshal([]byte(raw), &is); err != nil {
		return fmt.Errorf("hermesd version --json: %w", err)
	}
	if want := b.source.Time.Format(time.RFC3339); is.Version != b.source.Version || is.Commit != b.source.Commit || is.Time != want {
		return fmt.Errorf("the program says that it is %+v, and should be %s of %s, %s; the linker does not find its variables", is, b.source.Version, b.source.Commit, want)
	}
	if _, err := runCommand(ctx, dir, env, program, "man", "--dir", filepath.Join(dir, "man", "man1")); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "completions"), 0o755); err != nil {
		return err
	}
	for file, shell := range shells {
		script, err := runCommand(ctx, dir, env, program, "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "completions", file), []byte(script), 0o600); err != nil {
			return err
		}
	}
	return nil
}
