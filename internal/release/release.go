package release

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// Sums is the name of the file with the checksums of all others, in the format of
// sha256sum.
const Sums = "SHA256SUMS"

// Options configures Make.
type Options struct {
	Repo    string   // a clone of the repository
	Ref     string   // the commit: a tag, a branch, a hash
	Out     string   // the directory in which one named after the version is created
	Targets []Target // at least one
	Cache   string   // build cache directory; "": the default one
	Log     io.Writer
}

// Make creates a release and returns its directory. The directory appears when it is
// complete and replaces an older one of the same version.
func Make(ctx context.Context, o Options) (string, error) {
	source, err := ReadSource(ctx, o.Repo, o.Ref)
	if err != nil {
		return "", err
	}
	if o.Out, err = filepath.Abs(o.Out); err == nil {
		err = os.MkdirAll(o.Out, 0o755)
	}
	if err != nil {
		return "", fmt.Errorf("release: %w", err)
	}
	temp, err := os.MkdirTemp(o.Out, ".making-")
	if err != nil {
		return "", fmt.Errorf("release: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // what cannot be removed is recognizable by its name
	w := work{Options: o, source: source, temp: temp}
	for _, dir := range []string{w.src(), w.made(), w.out()} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", fmt.Errorf("release: %w", err)
		}
	}
	if err := w.makeAll(ctx); err != nil {
		return "", err
	}
	if err := WriteSums(w.out()); err != nil {
		return "", err
	}
	final := filepath.Join(o.Out, source.Version)
	if err := errors.Join(os.RemoveAll(final), os.Rename(w.out(), final)); err != nil {
		return "", fmt.Errorf("release: %w", err)
	}
	return final, nil
}

// work is a release in progress. temp is next to the final directory.
type work struct {
	Options
	source Source
	temp   string
}

func (w work) src() string           { return filepath.Join(w.temp, "src") }  // the repository's files
func (w work) made() string          { return filepath.Join(w.temp, "made") } // pages and completions
func (w work) out() string           { return filepath.Join(w.temp, "out") }
func (w work) stage(t Target) string { return filepath.Join(w.temp, t.OS+"-"+t.Arch) } // what is packed

func (w work) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(w.Log, format+"\n", args...) // an error cannot be reported
}

func (w work) makeAll(ctx context.Context) error {
	w.logf("%s of %s, commit %s, %s", w.source.Version, w.source.Time.Format("2006-01-02"), w.source.Commit, runtime.Version())
	if err := w.source.Export(ctx, w.src()); err != nil {
		return err
	}
	b := builder{dir: w.src(), cache: w.Cache, source: w.source}
	host := ""
	for _, t := range w.Targets {
		if err := b.buildTarget(ctx, t, w.stage(t)); err != nil {
			return fmt.Errorf("release: %s: %w", t, err)
		}
		w.logf("%-14s is built", t)
		if t.runsHere() {
			host = filepath.Join(w.stage(t), t.Programs()[0])
		}
	}
	if host == "" {
		host = filepath.Join(w.temp, "host", Target{OS: runtime.GOOS}.Programs()[0])
		if err := b.buildHost(ctx, host); err != nil {
			return fmt.Errorf("release: build for this machine: %w", err)
		}
	}
	if err := b.generateDocs(ctx, host, w.made()); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	for _, t := range w.Targets {
		if err := w.packTarget(ctx, t); err != nil {
			return fmt.Errorf("release: %s: %w", t, err)
		}
	}
	return nil
}

// packTarget creates the archive of a target and the inventories of its programs.
func (w work) packTarget(ctx context.Context, t Target) error {
	infos := make([]*debug.BuildInfo, len(programs))
	for i, file := range t.Programs() {
		info, err := buildinfo.ReadFile(filepath.Join(w.stage(t), file))
		if err != nil {
			return err
		}
		infos[i] = info
		if err := w.writeInventory(t, i, info); err != nil {
			return err
		}
	}
	texts, err := Licences(ctx, w.src(), infos...)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(w.made(), licences), []byte(texts), 0o600); err != nil {
		return err
	}
	for _, item := range t.Contents()[len(programs):] {
		if err := w.add(strings.TrimSuffix(item, "/"), w.stage(t)); err != nil {
			return err
		}
	}
	archive := filepath.Join(w.out(), t.Archive(w.source.Version))
	if err := Pack(archive, w.stage(t), w.source.Time); err != nil {
		return err
	}
	size, err := os.Stat(archive)
	if err != nil {
		return err
	}
	w.logf("%-14s %5.1f MB, %d modules", t, float64(size.Size())/1e6, len(infos[0].Deps))
	return nil
}

// writeInventory writes the inventory of the program with index i.
func (w work) writeInventory(t Target, i int, info *debug.BuildInfo) error {
	hash, err := hashOf(filepath.Join(w.stage(t), t.Programs()[i]))
	if err != nil {
		return err
	}
	bom, err := Inventory(Program{Name: programs[i], Version: w.source.Version, SHA256: hash, Time: w.source.Time}, info)
	if err != nil {
		return err
	}
	path := filepath.Join(w.out(), t.nameOf(programs[i], w.source.Version)+".cdx.json")
	return writeTo(path, func(f io.Writer) error { return WriteInventory(f, bom) })
}

// add copies a generated file or directory, or else one of the repository, to the
// directory that is packed.
func (w work) add(item, to string) error {
	from := filepath.Join(w.made(), filepath.FromSlash(item))
	info, err := os.Stat(from)
	if errors.Is(err, os.ErrNotExist) {
		from = filepath.Join(w.src(), filepath.FromSlash(item))
		info, err = os.Stat(from)
	}
	if err != nil {
		return err
	}
	at := filepath.Join(to, filepath.FromSlash(item))
	if info.IsDir() {
		return os.CopyFS(at, os.DirFS(from))
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(at, raw, 0o600)
}

func writeTo(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

func hashOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), errors.Join(err, f.Close())
}

// WriteSums writes the checksums of the files in dir to the file Sums in dir.
func WriteSums(dir string) error {
	sums, err := sumsOf(dir)
	if err != nil {
		return fmt.Errorf("release: write checksums: %w", err)
	}
	var b strings.Builder
	for _, name := range names(sums) {
		fmt.Fprintf(&b, "%s  %s\n", sums[name], name)
	}
	if err := os.WriteFile(filepath.Join(dir, Sums), []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("release: write checksums: %w", err)
	}
	return nil
}

// sumsOf returns the checksums of the files in dir, except Sums.
func sumsOf(dir string) (map[string]string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for _, f := range files {
		if f.Name() == Sums {
			continue
		}
		if sums[f.Name()], err = hashOf(filepath.Join(dir, f.Name())); err != nil {
			return nil, err
		}
	}
	return sums, nil
}

func names(sums map[string]string) []string {
	var all []string
	for name := range sums {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Differences returns the names of the files that differ between two releases or are only
// in one of them.
func Differences(a, b string) ([]string, error) {
	one, err := sumsOf(a)
	if err != nil {
		return nil, fmt.Errorf("release: compare: %w", err)
	}
	other, err := sumsOf(b)
	if err != nil {
		return nil, fmt.Errorf("release: compare: %w", err)
	}
	var differ []string
	for _, name := range names(one) {
		if one[name] != other[name] {
			differ = append(differ, name)
		}
	}
	for _, name := range names(other) {
		if one[name] == "" {
			differ = append(differ, name)
		}
	}
	return differ, nil
}
