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

// A Program is the subject of an inventory.
type Program struct {
	Name    string
	Version string
	SHA256  string // of the program file, in hex
	Time    time.Time
}

// Inventory returns the software bill of materials of a program: the modules that the
// linker reports, not those in go.mod, and the Go standard library. It depends on its
// arguments only.
func Inventory(p Program, info *debug.BuildInfo) (*cdx.BOM, error) {
	main := cdx.Component{
		BOMRef: p.Name + "@" + p.Version, Type: cdx.ComponentTypeApplication, Name: p.Name, Version: p.Version,
		PackageURL: "pkg:generic/" + p.Name + "@" + escape(p.Version),
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: p.SHA256}},
		Properties: buildSettings(info),
	}
	goVersion, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	parts := []cdx.Component{library("std", goVersion)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		part := library(m.Path, m.Version)
		hash, err := moduleHash(m)
		if err != nil {
			return nil, err
		}
		part.Hashes = &[]cdx.Hash{hash}
		parts = append(parts, part)
	}
	bom := cdx.NewBOM()
	bom.SpecVersion, bom.JSONSchema = cdx.SpecVersion1_6, "http://cyclonedx.org/schema/bom-1.6.schema.json" // supported by most tools
	bom.SerialNumber = serialNumber(p, info)
	bom.Metadata = &cdx.Metadata{Timestamp: p.Time.UTC().Format(time.RFC3339), Component: &main}
	bom.Components = &parts
	bom.Dependencies = dependencies(main.BOMRef, parts)
	return bom, nil
}

// WriteInventory writes a bill of materials as JSON.
func WriteInventory(w io.Writer, bom *cdx.BOM) error {
	if err := cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).Encode(bom); err != nil {
		return fmt.Errorf("release: write SBOM: %w", err)
	}
	return nil
}

func library(path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + escape(version)
	return cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url, Scope: cdx.ScopeRequired}
}

// escape encodes a version for package URLs. Of the characters of a version only + has a
// meaning there.
func escape(version string) string { return strings.ReplaceAll(version, "+", "%2B") }

// moduleHash returns the hash of a module in go.sum, in hex: the hash of the hashes of its
// files.
func moduleHash(m *debug.Module) (cdx.Hash, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
	if err != nil || len(raw) != sha256.Size {
		return cdx.Hash{}, fmt.Errorf("release: module %s %s has no checksum; a release has no replaced modules", m.Path, m.Version)
	}
	return cdx.Hash{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}, nil
}

// buildSettings returns the build settings of the program under CycloneDX's names.
func buildSettings(info *debug.BuildInfo) *[]cdx.Property {
	all := []cdx.Property{{Name: "cdx:gomod:build:env:GOVERSION", Value: info.GoVersion}}
	for _, s := range info.Settings {
		if strings.ToUpper(s.Key) == s.Key && s.Value != "" { // an environment variable
			all = append(all, cdx.Property{Name: "cdx:gomod:build:env:" + s.Key, Value: s.Value})
		}
	}
	return &all
}

// dependencies returns the dependency of the program on all its parts. The linker does not
// report dependencies between parts.
func dependencies(main string, parts []cdx.Component) *[]cdx.Dependency {
	all := make([]string, len(parts))
	deps := make([]cdx.Dependency, 0, len(parts)+1)
	for i, c := range parts {
		all[i] = c.BOMRef
		deps = append(deps, cdx.Dependency{Ref: c.BOMRef})
	}
	deps = slices.Insert(deps, 0, cdx.Dependency{Ref: main, Dependencies: &all})
	return &deps
}

// serialNumber returns the serial number of the document, a UUID (version 8) derived from
// its content.
func serialNumber(p Program, info *debug.BuildInfo) string {
	h := sha256.Sum256([]byte("hermesd SBOM\n" + p.Version + "\n" + p.SHA256 + "\n" + p.Time.UTC().String() + "\n" + info.String()))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}
