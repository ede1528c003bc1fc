# Shared by the setup scripts. Each can be run from anywhere, writes only to build/ of the checkout, and does nothing if
# its result exists already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
mkdir -p build/lib build/stamps

say() { echo "setup: $*"; }

# need TOOL PACKAGE: requires the tool, which Debian's PACKAGE provides.
need() {
	command -v "$1" >/dev/null || { echo "error: $1 is not installed: apt-get install $2" >&2; exit 1; }
}

# need_pip: Debian packages pip separately from Python.
need_pip() {
	need python3 python3
	python3 -m pip --version >/dev/null 2>&1 || { echo "error: pip is not installed: apt-get install python3-pip" >&2; exit 1; }
}

# again COMMAND...: tries a network command five times; on a busy machine a single handshake may time out.
again() {
	local try
	for try in 1 2 3 4; do
		if "$@"; then return 0; fi
		say "failed, perhaps because the network or the machine is slow: retrying $1 in $((try * 2)) seconds" >&2
		sleep $((try * 2))
	done
	"$@"
}

# done_already NAME VERSION: whether the step is done for that version. Concurrent runs of the step wait here.
done_already() {
	stamp=build/stamps/$1
	need flock util-linux
	exec 9>"$stamp.lock"
	flock 9
	[ "$(cat "$stamp" 2>/dev/null)" = "$2" ]
}

# finished VERSION: marks the step of done_already as done.
finished() {
	echo "$1" >"$stamp.new"
	mv "$stamp.new" "$stamp"
}

# fetch_wheel FILE OPTIONS...: downloads the package that requirements file FILE pins into build/wheels; pip checks the hash.
fetch_wheel() {
	local list=$1
	shift
	need_pip
	rm -rf "build/wheels/$(basename "$list" .txt)"
	again python3 -m pip download --quiet --timeout 60 --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
		--requirement "$list" --dest "build/wheels/$(basename "$list" .txt)" "$@"
}

# unpack_wheel NAME PATTERN FOLDER: copies the files of a fetched wheel that match into a folder, without their paths.
unpack_wheel() {
	python3 - "build/wheels/$1" "$2" "$3" <<-'PYTHON'
		import fnmatch, os, sys, zipfile
		wheels, pattern, folder = sys.argv[1:]
		os.makedirs(folder, exist_ok=True)
		found = 0
		for wheel in os.listdir(wheels):
		    with zipfile.ZipFile(os.path.join(wheels, wheel)) as z:
		        for name in z.namelist():
		            if fnmatch.fnmatch(name, pattern):
		                path = os.path.join(folder, os.path.basename(name))
		                with open(path + ".new", "wb") as f:
		                    f.write(z.read(name))
		                os.replace(path + ".new", path)
		                found += 1
		if not found:
		    sys.exit(f"error: no {pattern} in {wheels}")
	PYTHON
}
