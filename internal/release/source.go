package release

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Source is the commit from which a release is built. Uncommitted changes of the working
// tree are not part of it.
type Source struct {
	Version string    // its tag, or a version derived from the newest tag and the commit
	Commit  string    // the full hash
	Time    time.Time // commit time, or SOURCE_DATE_EPOCH; in UTC

	repo string
}

// versionForm matches versions that can be used in file names and on command lines.
var versionForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_-]*$`)

// ReadSource returns the Source of ref in the repository repo. The version of a commit
// without tag is v1.2.3-4-gHASH after v1.2.3, and v0.0.0-TIME-HASH if there is no earlier
// tag.
func ReadSource(ctx context.Context, repo, ref string) (Source, error) {
	commit, err := git(ctx, repo, "rev-parse", "--verify", "--end-of-options", ref+"^{commit}")
	if err != nil {
		return Source{}, fmt.Errorf("release: commit %q not found: %w", ref, err)
	}
	stamp, err := git(ctx, repo, "log", "-1", "--format=%ct", commit)
	if err != nil {
		return Source{}, fmt.Errorf("release: %w", err)
	}
	s := Source{Commit: commit, repo: repo}
	if s.Time, err = seconds(stamp); err != nil {
		return Source{}, err
	}
	s.Version, err = git(ctx, repo, "describe", "--tags", "--match", "v[0-9]*", "--abbrev=12", commit)
	if err != nil { // no earlier tag
		s.Version = "v0.0.0-" + s.Time.Format("20060102150405") + "-" + commit[:12]
	}
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		if s.Time, err = seconds(epoch); err != nil {
			return Source{}, err
		}
	}
	if !versionForm.MatchString(s.Version) {
		return Source{}, fmt.Errorf("release: the tag %q cannot be part of a file name; use letters, digits, dots and dashes", s.Version)
	}
	return s, nil
}

func seconds(s string) (time.Time, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return time.Time{}, fmt.Errorf("release: %q is not a time in seconds since 1970 (SOURCE_DATE_EPOCH)", s)
	}
	return time.Unix(n, 0).UTC(), nil
}

// Export writes the files of the commit to dir, which must exist. Line ends are not
// converted.
func (s Source) Export(ctx context.Context, dir string) error {
	packed, err := runCommand(ctx, s.repo, nil, "git", "-c", "core.autocrlf=false", "-c", "core.eol=lf", "archive", "--format=tar", s.Commit)
	if err != nil {
		return fmt.Errorf("release: export %s: %w", s.Commit, err)
	}
	for r := tar.NewReader(strings.NewReader(packed)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("release: export %s: %w", s.Commit, err)
		}
		if err := exportOne(dir, h, r); err != nil {
			return fmt.Errorf("release: export %s: %w", h.Name, err)
		}
	}
}

func exportOne(dir string, h *tar.Header, r io.Reader) error {
	path := filepath.Join(dir, filepath.FromSlash(h.Name))
	if h.Typeflag != tar.TypeXGlobalHeader && !filepath.IsLocal(h.Name) {
		return errors.New("path is outside of the directory")
	}
	switch h.Typeflag {
	case tar.TypeXGlobalHeader: // contains the commit hash
		return nil
	case tar.TypeDir:
		return os.MkdirAll(path, 0o755)
	case tar.TypeReg:
		raw, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return os.WriteFile(path, raw, 0o600|h.FileInfo().Mode().Perm()&0o111)
	}
	return errors.New("neither a file nor a directory; links are not supported")
}

// git returns the output of git without the trailing line end.
func git(ctx context.Context, repo string, args ...string) (string, error) {
	out, err := runCommand(ctx, repo, nil, "git", args...)
	return strings.TrimSpace(out), err
}

// runCommand runs a program in dir and returns its output. An error contains its error
// output.
func runCommand(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errOut bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, &out, &errOut
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(name), args[0], err, strings.TrimSpace(errOut.String()))
	}
	return out.String(), nil
}
