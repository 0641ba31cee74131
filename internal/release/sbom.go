package release

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// A Program is what an inventory is about.
type Program struct {
	Version string
	SHA256  string // of the program's file, in hex
	Time    time.Time
}

// Inventory returns the bill of materials of a program: what the linker says
// that is in it, not what go.mod asks for, with the Go standard library. It is
// made of nothing but its arguments.
func Inventory(p Program, info *debug.BuildInfo) (*cdx.BOM, error) {
	main := cdx.Component{
		BOMRef: "hermesd@" + p.Version, Type: cdx.ComponentTypeApplication, Name: "hermesd", Version: p.Version,
		PackageURL: "pkg:generic/hermesd@" + escape(p.Version),
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: p.SHA256}},
		Properties: settings(info),
	}
	goVersion, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	parts := []cdx.Component{library("std", goVersion)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		part := library(m.Path, m.Version)
		hash, err := sum(m)
		if err != nil {
			return nil, err
		}
		part.Hashes = &[]cdx.Hash{hash}
		parts = append(parts, part)
	}
	bom := cdx.NewBOM()
	bom.SpecVersion, bom.JSONSchema = cdx.SpecVersion1_6, "http://cyclonedx.org/schema/bom-1.6.schema.json" // what most tools read today
	bom.SerialNumber = serial(p, info)
	bom.Metadata = &cdx.Metadata{Timestamp: p.Time.UTC().Format(time.RFC3339), Component: &main}
	bom.Components = &parts
	bom.Dependencies = edges(main.BOMRef, parts)
	return bom, nil
}

// WriteInventory writes a bill of materials as JSON.
func WriteInventory(w io.Writer, bom *cdx.BOM) error {
	if err := cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).Encode(bom); err != nil {
		return fmt.Errorf("release: write the SBOM: %w", err)
	}
	return nil
}

func library(path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + escape(version)
	return cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url, Scope: cdx.ScopeRequired}
}

// escape writes a version as package URLs want it: of what may stand in one,
// only + has a meaning there.
func escape(version string) string { return strings.ReplaceAll(version, "+", "%2B") }

// sum returns what go.sum holds of a module, in hex: the hash of the hashes of
// its files.
func sum(m *debug.Module) (cdx.Hash, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
	if err != nil || len(raw) != sha256.Size {
		return cdx.Hash{}, fmt.Errorf("release: module %s %s has no checksum; a release has no replaced modules", m.Path, m.Version)
	}
	return cdx.Hash{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}, nil
}

// settings returns how the program was built, by the names that CycloneDX has
// for it.
func settings(info *debug.BuildInfo) *[]cdx.Property {
	all := []cdx.Property{{Name: "cdx:gomod:build:env:GOVERSION", Value: info.GoVersion}}
	for _, s := range info.Settings {
		if strings.ToUpper(s.Key) == s.Key && s.Value != "" { // a variable
			all = append(all, cdx.Property{Name: "cdx:gomod:build:env:" + s.Key, Value: s.Value})
		}
	}
	return &all
}

// edges says that the program is made of all its parts. Which part asks for
// which other one the linker does not tell.
func edges(main string, parts []cdx.Component) *[]cdx.Dependency {
	all := make([]string, len(parts))
	deps := make([]cdx.Dependency, 0, len(parts)+1)
	for i, c := range parts {
		all[i] = c.BOMRef
		deps = append(deps, cdx.Dependency{Ref: c.BOMRef})
	}
	deps = slices.Insert(deps, 0, cdx.Dependency{Ref: main, Dependencies: &all})
	return &deps
}

// serial returns the document's number: a UUID (version 8) of what it is about.
func serial(p Program, info *debug.BuildInfo) string {
	h := sha256.Sum256([]byte("hermesd SBOM\n" + p.Version + "\n" + p.SHA256 + "\n" + p.Time.UTC().String() + "\n" + info.String()))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}
