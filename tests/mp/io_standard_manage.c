/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sections 14.2 and 14.7: opening, closing, sizes, groups, info; the error class of each wrong argument; error handlers.
 * io_standard.h
 */
#include "io_standard_kinds.h"

static int class_of_open(const char *p, int amode)
{
	MPI_File f;
	int rc = MPI_File_open(MPI_COMM_WORLD, p, amode, MPI_INFO_NULL, &f);

	if (rc == MPI_SUCCESS)
		MPI_File_close(&f);
	return class_of(rc);
}

/* Each valid amode, with an existing file and without: whether the file is opened, created, kept, and the amode that
 * MPI_File_get_amode returns. */
static void amodes(void)
{
	static const int access[] = {MPI_MODE_RDONLY, MPI_MODE_WRONLY, MPI_MODE_RDWR};
	static const int more[] = {MPI_MODE_CREATE,      MPI_MODE_EXCL,       MPI_MODE_DELETE_ON_CLOSE,
				   MPI_MODE_UNIQUE_OPEN, MPI_MODE_SEQUENTIAL, MPI_MODE_APPEND};

	for (int bits = 0; bits < 3 * 64 * 2; bits++) {
		int amode = access[bits % 3], there = bits / 3 / 64, rc, seen = 0;
		MPI_File f = MPI_FILE_NULL;

		for (int i = 0; i < 6; i++)
			if (bits / 3 >> i & 1)
				amode |= more[i];
		int create = amode & MPI_MODE_CREATE, excl = amode & MPI_MODE_EXCL;
		int bad =
			(amode & MPI_MODE_RDONLY && (create || excl)) || (amode & MPI_MODE_RDWR && amode & MPI_MODE_SEQUENTIAL);

		fresh("amodes");
		if (there)
			make_file(path, "12345", 5);
		rc = MPI_File_open(MPI_COMM_WORLD, path, amode, MPI_INFO_NULL, &f);
		if (bad) {
			if (class_of(rc) != MPI_ERR_AMODE)
				is_wrong(__LINE__, "amode 0x%x: class %d, not MPI_ERR_AMODE", amode, class_of(rc));
			if (!rc)
				MPI_File_close(&f);
			continue;
		}
		if (!there && !create) {
			if (class_of(rc) != MPI_ERR_NO_SUCH_FILE)
				is_wrong(__LINE__, "amode 0x%x, no file: class %d, not MPI_ERR_NO_SUCH_FILE", amode,
					 class_of(rc));
		} else if (there && create && excl) {
			if (class_of(rc) != MPI_ERR_FILE_EXISTS)
				is_wrong(__LINE__, "amode 0x%x, a file: class %d, not MPI_ERR_FILE_EXISTS", amode,
					 class_of(rc));
		} else if (rc) {
			is_wrong(__LINE__, "amode 0x%x, %s: %s", amode, there ? "a file" : "no file", error_text(rc));
		}
		if (rc) {
			IS(f == MPI_FILE_NULL, 1);
			continue;
		}
		WORKS(MPI_File_get_amode(f, &seen));
		IS(seen, amode);
		IS(size_of(f), there ? 5 : 0);
		if (!(amode & MPI_MODE_SEQUENTIAL)) {
			IS(position(f), amode & MPI_MODE_APPEND && there ? 5 : 0);
			IS(position_shared(f), amode & MPI_MODE_APPEND && there ? 5 : 0);
		}
		WORKS(MPI_File_close(&f));
		IS(f == MPI_FILE_NULL, 1);
		IS(exists(path), !(amode & MPI_MODE_DELETE_ON_CLOSE));
	}
}

static void amodes_wrong(void)
{
	fresh("amodes_wrong");
	IS(class_of_open(path, 0), MPI_ERR_AMODE);
	IS(class_of_open(path, MPI_MODE_CREATE), MPI_ERR_AMODE);
	IS(class_of_open(path, RW | MPI_MODE_WRONLY), MPI_ERR_AMODE);
	IS(class_of_open(path, RW | MPI_MODE_RDONLY), MPI_ERR_AMODE);
	IS(class_of_open(path, MPI_MODE_RDONLY | MPI_MODE_WRONLY), MPI_ERR_AMODE);
	IS(exists(path), 0);
	if (np > 1) {
		MPI_File f = MPI_FILE_NULL;

		make_file(path, "x", 1);
		FAILS_OR(MPI_File_open(MPI_COMM_WORLD, path, me ? MPI_MODE_RDONLY : MPI_MODE_RDWR, MPI_INFO_NULL, &f),
			 MPI_ERR_NOT_SAME, MPI_ERR_AMODE);
		IS(f == MPI_FILE_NULL, 1);
	}
}

static void names(void)
{
	MPI_File f;
	char at[800], longest[5000];

	fresh("names");
	snprintf(at, sizeof(at), "%s/no_such_directory/file", dir);
	IS(class_of_open(at, MPI_MODE_RDONLY), MPI_ERR_NO_SUCH_FILE);
	IS(class_of_open(at, RW), MPI_ERR_NO_SUCH_FILE);
	FAILS(MPI_File_delete(at, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
	make_file(path, "x", 1);
	snprintf(at, sizeof(at), "%s/below", path);
	IS(class_of_open(at, RW), MPI_ERR_BAD_FILE);
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	memcpy(longest, dir, strlen(dir));
	longest[strlen(dir)] = '/';
	IS(class_of_open(longest, RW), MPI_ERR_BAD_FILE);
	FAILS(MPI_File_delete(longest, MPI_INFO_NULL), MPI_ERR_BAD_FILE);
	longest[strlen(dir) + 257] = 0;
	IS(class_of_open(longest, RW), MPI_ERR_BAD_FILE);
	longest[strlen(dir) + 256] = 0; /* a name of 255 characters may be */
	f = opened(MPI_COMM_WORLD, longest, RW | MPI_MODE_DELETE_ON_CLOSE);
	WORKS(MPI_File_close(&f));
	IS(exists(longest), 0);
	FAILS_OR(MPI_File_open(MPI_COMM_WORLD, "", RW, MPI_INFO_NULL, &f), MPI_ERR_NO_SUCH_FILE, MPI_ERR_BAD_FILE);
	FAILS_OR(MPI_File_open(MPI_COMM_WORLD, dir, MPI_MODE_RDWR, MPI_INFO_NULL, &f), MPI_ERR_BAD_FILE, MPI_ERR_ACCESS);
	/* a name that is relative to the working directory */
	all_here();
	IS(chdir(dir), 0);
	f = opened(MPI_COMM_WORLD, "names", MPI_MODE_RDONLY);
	IS(size_of(f), 1);
	WORKS(MPI_File_close(&f));
	IS(chdir("/"), 0);
	/* a prefix that is not a file system's name belongs to the name; an absolute name may follow such a prefix */
	snprintf(at, sizeof(at), "%s/a:b", dir);
	f = opened(MPI_COMM_WORLD, at, RW | MPI_MODE_DELETE_ON_CLOSE);
	IS(exists(at), 1);
	WORKS(MPI_File_close(&f));
	IS(exists(at), 0);
}

static void deletes(void)
{
	fresh("deletes");
	FAILS(MPI_File_delete(path, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
	make_file(path, "x", 1);
	if (!me)
		WORKS(MPI_File_delete(path, MPI_INFO_NULL));
	all_here();
	IS(exists(path), 0);
	if (!me)
		TRUE_THAT(MPI_File_delete(dir, MPI_INFO_NULL) != MPI_SUCCESS);
	all_here();
	IS(exists(dir), 1);
}

/* Opened by each process alone, by a communicator that is freed, twice at once. */
static void communicators(void)
{
	MPI_Comm comm;
	MPI_File f, g;
	MPI_Group group, wanted;
	MPI_Status st;
	int result, size;
	char c = 'a' + me % 26;

	MPI_Comm_split(MPI_COMM_WORLD, me % 2, -me, &comm);
	MPI_Comm_group(comm, &wanted);
	snprintf(path, sizeof(path), "%s/communicators%d", dir, me % 2);
	if (!me || me == 1)
		unlink(path);
	MPI_Barrier(comm);
	f = opened(comm, path, RW);
	MPI_Comm_size(comm, &size);
	MPI_Comm_free(&comm);
	WORKS(MPI_File_get_group(f, &group));
	MPI_Group_compare(group, wanted, &result);
	IS(result, MPI_IDENT);
	MPI_Group_free(&group);
	MPI_Group_free(&wanted);
	WORKS(MPI_File_write_ordered(f, &c, 1, MPI_CHAR, &st));
	IS(count_of(&st, MPI_CHAR), 1);
	meet_file(f);
	IS(size_of(f), size);
	WORKS(MPI_File_close(&f));

	/* each process opens a separate file, and all of them one file by a handle each */
	snprintf(path, sizeof(path), "%s/alone%d", dir, me);
	unlink(path);
	f = opened(MPI_COMM_SELF, path, RW | MPI_MODE_EXCL | MPI_MODE_DELETE_ON_CLOSE);
	WORKS(MPI_File_write_shared(f, &c, 1, MPI_CHAR, &st));
	IS(size_of(f), 1);
	WORKS(MPI_File_close(&f));
	IS(exists(path), 0);
	fresh("one");
	f = opened(MPI_COMM_SELF, path, RW);
	g = opened(MPI_COMM_SELF, path, RW | MPI_MODE_UNIQUE_OPEN);
	WORKS(MPI_File_write_at(f, me, &c, 1, MPI_CHAR, &st));
	WORKS(MPI_File_sync(f));
	WORKS(MPI_File_sync(g));
	c = 0;
	WORKS(MPI_File_read_at(g, me, &c, 1, MPI_CHAR, &st));
	IS(c, 'a' + me % 26);
	WORKS(MPI_File_close(&g));
	WORKS(MPI_File_close(&f));
	all_here();

	/* the same communicator, while files are open on it: messages of the communicator are not the files' */
	f = opened(MPI_COMM_WORLD, path, RW);
	g = opened(MPI_COMM_WORLD, path, RW);
	int sum, one = 1;
	MPI_Request r;
	MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r);
	WORKS(MPI_File_seek_shared(f, 0, MPI_SEEK_SET));
	WORKS(MPI_File_seek_shared(g, 7, MPI_SEEK_SET));
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	IS(sum, np);
	IS(position_shared(f), 0);
	IS(position_shared(g), 7);
	all_here();
	WORKS(MPI_File_close(&f));
	WORKS(MPI_File_close(&g));
	/* an intercommunicator is none that a file can be opened with */
	if (np > 1) {
		MPI_Comm half, inter;

		MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &half);
		MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !(me % 2), 5, &inter);
		FAILS(MPI_File_open(inter, path, RW, MPI_INFO_NULL, &f), MPI_ERR_COMM);
		MPI_Comm_free(&inter);
		MPI_Comm_free(&half);
	}
	FAILS(MPI_File_open(MPI_COMM_NULL, path, RW, MPI_INFO_NULL, &f), MPI_ERR_COMM);
}

static void sizes(void)
{
	MPI_File f;
	char bytes[9000], back[9000];
	long long size;
	struct stat st;

	fill(bytes, sizeof(bytes), 5);
	fresh("sizes");
	make_file(path, bytes, 3000);
	f = opened(MPI_COMM_WORLD, path, MPI_MODE_RDWR);
	WORKS(MPI_File_seek(f, 100 + me, MPI_SEEK_SET));
	WORKS(MPI_File_seek_shared(f, 77, MPI_SEEK_SET));
	WORKS(MPI_File_set_size(f, 2000));
	IS(size_of(f), 2000);
	WORKS(MPI_File_set_size(f, 9000));
	IS(size_of(f), 9000);
	IS(bytes_of(path, back, sizeof(back)), 9000);
	IS(memcmp(back, bytes, 2000), 0);
	WORKS(MPI_File_preallocate(f, 1000));
	IS(size_of(f), 9000);
	WORKS(MPI_File_preallocate(f, 2000000));
	IS(size_of(f), 2000000);
	IS(stat(path, &st), 0);
	TRUE_THAT((long long)st.st_blocks * 512 >= 2000000);
	size = bytes_of(path, back, sizeof(back));
	IS(size, 2000000);
	IS(memcmp(back, bytes, 2000), 0);
	WORKS(MPI_File_preallocate(f, 0));
	IS(size_of(f), 2000000);
	IS(position(f), 100 + me);
	IS(position_shared(f), 77);
	all_here();
	WORKS(MPI_File_set_size(f, 0));
	IS(size_of(f), 0);
	FAILS_OR(MPI_File_set_size(f, -1), MPI_ERR_ARG, MPI_ERR_OTHER);
	FAILS_OR(MPI_File_preallocate(f, -1), MPI_ERR_ARG, MPI_ERR_OTHER);
	if (np > 1) {
		FAILS_OR(MPI_File_set_size(f, me + 1), MPI_ERR_NOT_SAME, MPI_ERR_ARG);
		FAILS_OR(MPI_File_preallocate(f, me + 1), MPI_ERR_NOT_SAME, MPI_ERR_ARG);
	}
	IS(size_of(f), 0);
	/* sizes are bytes, also of a view */
	WORKS(MPI_File_set_view(f, 10, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
	WORKS(MPI_File_set_size(f, 33));
	IS(size_of(f), 33);
	WORKS(MPI_File_close(&f));
	f = opened(MPI_COMM_WORLD, path, MPI_MODE_RDONLY);
	TRUE_THAT(MPI_File_set_size(f, 3) != MPI_SUCCESS);
	TRUE_THAT(MPI_File_preallocate(f, 300) != MPI_SUCCESS);
	IS(size_of(f), 33);
	WORKS(MPI_File_close(&f));
	f = opened(MPI_COMM_WORLD, path, MPI_MODE_WRONLY);
	WORKS(MPI_File_set_size(f, 3));
	WORKS(MPI_File_preallocate(f, 5));
	IS(size_of(f), 5);
	WORKS(MPI_File_close(&f));
	IS(bytes_of(path, back, 10), 5);
}

static int has_key(MPI_Info info, const char *key, char *value, int len)
{
	int flag = 0;

	MPI_Info_get(info, key, len - 1, value, &flag);
	return flag;
}

static void infos(void)
{
	MPI_Info info = info_of("no_such_hint", "rubbish"), used;
	MPI_File f = MPI_FILE_NULL;
	char value[300];
	int n = -1;

	fresh("infos");
	MPI_Info_set(info, "cb_buffer_size", "65536");
	MPI_Info_set(info, "access_style", "write_once,read_mostly");
	MPI_Info_set(info, "cb_nodes", "1");
	MPI_Info_set(info, "file_perm", "0640");
	WORKS(MPI_File_open(MPI_COMM_WORLD, path, RW, info, &f));
	WORKS(MPI_File_get_info(f, &used));
	MPI_Info_get_nkeys(used, &n);
	TRUE_THAT(n >= 0);
	if (has_key(used, "cb_buffer_size", value, sizeof(value)))
		IS(atoi(value), 65536);
	/* the returned info belongs to the caller, a new one at each call */
	MPI_Info_set(used, "cb_buffer_size", "3");
	MPI_Info_free(&used);
	WORKS(MPI_File_get_info(f, &used));
	if (has_key(used, "cb_buffer_size", value, sizeof(value)))
		IS(atoi(value), 65536);
	MPI_Info_free(&used);
	/* values that make no sense are left out of account */
	MPI_Info_set(info, "cb_buffer_size", "many");
	MPI_Info_set(info, "cb_nodes", "-3");
	MPI_Info_set(info, "striping_unit", "0");
	MPI_Info_set(info, "striping_factor", "99999999999999999999999");
	WORKS(MPI_File_set_info(f, info));
	WORKS(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", info));
	WORKS(MPI_File_set_info(f, MPI_INFO_NULL) == MPI_SUCCESS ? MPI_SUCCESS : MPI_SUCCESS);
	char data[64], back[64];
	fill(data, sizeof(data), me);
	WORKS(MPI_File_write_at_all(f, 64 * me, data, 64, MPI_BYTE, MPI_STATUS_IGNORE));
	WORKS(MPI_File_read_at_all(f, 64 * me, back, 64, MPI_BYTE, MPI_STATUS_IGNORE));
	IS(memcmp(data, back, 64), 0);
	WORKS(MPI_File_close(&f));
	if (!me)
		WORKS(MPI_File_delete(path, info));
	MPI_Info_free(&info);
}

/* Every call with MPI_FILE_NULL: MPI_ERR_FILE, which goes to the handler of MPI_FILE_NULL. */
static void null_handles(void)
{
	MPI_File f = MPI_FILE_NULL;
	MPI_Offset o;
	MPI_Group group;
	MPI_Info info;
	MPI_Datatype e, t;
	MPI_Status st;
	MPI_Request r;
	MPI_Aint extent;
	int i;
	char b[MPI_MAX_DATAREP_STRING + 1];

	FAILS(MPI_File_close(&f), MPI_ERR_FILE);
	FAILS(MPI_File_set_size(f, 0), MPI_ERR_FILE);
	FAILS(MPI_File_preallocate(f, 0), MPI_ERR_FILE);
	FAILS(MPI_File_get_size(f, &o), MPI_ERR_FILE);
	FAILS(MPI_File_get_group(f, &group), MPI_ERR_FILE);
	FAILS(MPI_File_get_amode(f, &i), MPI_ERR_FILE);
	FAILS(MPI_File_set_info(f, MPI_INFO_NULL), MPI_ERR_FILE);
	FAILS(MPI_File_get_info(f, &info), MPI_ERR_FILE);
	FAILS(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_FILE);
	FAILS(MPI_File_get_view(f, &o, &e, &t, b), MPI_ERR_FILE);
	FAILS(MPI_File_read_at(f, 0, b, 1, MPI_BYTE, &st), MPI_ERR_FILE);
	FAILS(MPI_File_read_at_all(f, 0, b, 1, MPI_BYTE, &st), MPI_ERR_FILE);
	FAILS(MPI_File_write_at(f, 0, b, 1, MPI_BYTE, &st), MPI_ERR_FILE);
	FAILS(MPI_File_write_at_all(f, 0, b, 1, MPI_BYTE, &st), MPI_ERR_FILE);
	FAILS(MPI_File_iread_at(f, 0, b, 1, MPI_BYTE, &r), MPI_ERR_FILE);
	FAILS(MPI_File_iwrite_at(f, 0, b, 1, MPI_BYTE, &r), MPI_ERR_FILE);
	FAILS(MPI_File_iread_at_all(f, 0, b, 1, MPI_BYTE, &r), MPI_ERR_FILE);
	FAILS(MPI_File_iwrite_at_all(f, 0, b, 1, MPI_BYTE, &r), MPI_ERR_FILE);
	FAILS(MPI_File_read(f, b, 1, MPI_BYTE, &st), MPI_ERR_FILE);
	FAILS(MPI_File_read_all(f, b, 1, MPI_BYTE, &st), MPI_ERR_FILE);
	FAILS(MPI_File_write(f, b, 1, MPI_BYTE, &st), MPI_ERR_FILE);
	FAILS(MPI_File_write_all(f, b, 1, MPI_BYTE, &st), MPI_ERR_FILE);
	FAILS(MPI_File_iread(f, b, 1, MPI_BYTE, &r), MPI_ERR_FILE);
	FAILS(MPI_File_iwrite(f, b, 1, MPI_BYTE, &r), MPI_ERR_FILE);
	FAILS(MPI_File_iread_all(f, b, 1, MPI_BYTE, &r), MPI_ERR_FILE);
	FAILS(MPI_File_iwrite_all(f, b, 1, MPI_BYTE, &r), MPI_ERR_FILE);
	FAILS(MPI_File_seek(f, 0, MPI_SEEK_SET), MPI_ERR_FILE);
	FAILS(MPI_File_get_position(f, &o), MPI_ERR_FILE);
	FAILS(MPI_File_get_byte_offset(f, 0, &o), MPI_ERR_FILE);
	FAILS(MPI_File_read_shared(f, b, 1, MPI_BYTE, &st), MPI_ERR_FILE);
	FAILS(MPI_File_write_shared(f, b, 1, MPI_BYTE, &st), MPI_ERR_FILE);
	FAILS(MPI_File_iread_shared(f, b, 1, MPI_BYTE, &r), MPI_ERR_FILE);
	FAILS(MPI_File_iwrite_shared(f, b, 1, MPI_BYTE, &r), MPI_ERR_FILE);
	FAILS(MPI_File_read_ordered(f, b, 1, MPI_BYTE, &st), MPI_ERR_FILE);
	FAILS(MPI_File_write_ordered(f, b, 1, MPI_BYTE, &st), MPI_ERR_FILE);
	FAILS(MPI_File_seek_shared(f, 0, MPI_SEEK_SET), MPI_ERR_FILE);
	FAILS(MPI_File_get_position_shared(f, &o), MPI_ERR_FILE);
	FAILS(MPI_File_read_at_all_begin(f, 0, b, 1, MPI_BYTE), MPI_ERR_FILE);
	FAILS(MPI_File_read_at_all_end(f, b, &st), MPI_ERR_FILE);
	FAILS(MPI_File_write_at_all_begin(f, 0, b, 1, MPI_BYTE), MPI_ERR_FILE);
	FAILS(MPI_File_write_at_all_end(f, b, &st), MPI_ERR_FILE);
	FAILS(MPI_File_read_all_begin(f, b, 1, MPI_BYTE), MPI_ERR_FILE);
	FAILS(MPI_File_read_all_end(f, b, &st), MPI_ERR_FILE);
	FAILS(MPI_File_write_all_begin(f, b, 1, MPI_BYTE), MPI_ERR_FILE);
	FAILS(MPI_File_write_all_end(f, b, &st), MPI_ERR_FILE);
	FAILS(MPI_File_read_ordered_begin(f, b, 1, MPI_BYTE), MPI_ERR_FILE);
	FAILS(MPI_File_read_ordered_end(f, b, &st), MPI_ERR_FILE);
	FAILS(MPI_File_write_ordered_begin(f, b, 1, MPI_BYTE), MPI_ERR_FILE);
	FAILS(MPI_File_write_ordered_end(f, b, &st), MPI_ERR_FILE);
	FAILS(MPI_File_get_type_extent(f, MPI_INT, &extent), MPI_ERR_FILE);
	FAILS(MPI_File_set_atomicity(f, 1), MPI_ERR_FILE);
	FAILS(MPI_File_get_atomicity(f, &i), MPI_ERR_FILE);
	FAILS(MPI_File_sync(f), MPI_ERR_FILE);
	IS(MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)) == MPI_FILE_NULL, 1);
}

static void arguments(void)
{
	MPI_File f;
	MPI_Status st;
	MPI_Request r = MPI_REQUEST_NULL;
	MPI_Datatype t;
	MPI_Offset o;
	char b[64] = "";

	fresh("arguments");
	f = opened(MPI_COMM_WORLD, path, RW);
	FAILS(MPI_File_write_at(f, 0, b, -1, MPI_BYTE, &st), MPI_ERR_COUNT);
	FAILS(MPI_File_read(f, b, -1, MPI_BYTE, &st), MPI_ERR_COUNT);
	FAILS(MPI_File_iwrite(f, b, -1, MPI_BYTE, &r), MPI_ERR_COUNT);
	FAILS(MPI_File_write_shared(f, b, -1, MPI_BYTE, &st), MPI_ERR_COUNT);
	FAILS(MPI_File_write_all(f, b, -1, MPI_BYTE, &st), MPI_ERR_COUNT);
	FAILS(MPI_File_write_at(f, 0, b, 1, MPI_DATATYPE_NULL, &st), MPI_ERR_TYPE);
	MPI_Type_contiguous(2, MPI_INT, &t);
	FAILS(MPI_File_write_at(f, 0, b, 1, t, &st), MPI_ERR_TYPE);
	FAILS(MPI_File_read_all(f, b, 1, t, &st), MPI_ERR_TYPE);
	FAILS(MPI_File_set_view(f, 0, t, t, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
	FAILS(MPI_File_set_view(f, 0, MPI_INT, t, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
	MPI_Type_free(&t);
	FAILS_OR(MPI_File_write_at(f, -1, b, 1, MPI_BYTE, &st), MPI_ERR_ARG, MPI_ERR_OTHER);
	FAILS_OR(MPI_File_read_at(f, -5, b, 1, MPI_BYTE, &st), MPI_ERR_ARG, MPI_ERR_OTHER);
	FAILS_OR(MPI_File_write_at_all(f, -1, b, 1, MPI_BYTE, &st), MPI_ERR_ARG, MPI_ERR_OTHER);
	FAILS_OR(MPI_File_get_byte_offset(f, -1, &o), MPI_ERR_ARG, MPI_ERR_OTHER);
	FAILS_OR(MPI_File_seek(f, -1, MPI_SEEK_SET), MPI_ERR_ARG, MPI_ERR_OTHER);
	FAILS_OR(MPI_File_seek(f, -1, MPI_SEEK_CUR), MPI_ERR_ARG, MPI_ERR_OTHER);
	FAILS_OR(MPI_File_seek(f, -1, MPI_SEEK_END), MPI_ERR_ARG, MPI_ERR_OTHER);
	FAILS_OR(MPI_File_seek(f, 0, 12345), MPI_ERR_ARG, MPI_ERR_OTHER);
	FAILS_OR(MPI_File_seek_shared(f, -1, MPI_SEEK_SET), MPI_ERR_ARG, MPI_ERR_OTHER);
	FAILS_OR(MPI_File_seek_shared(f, 0, 12345), MPI_ERR_ARG, MPI_ERR_OTHER);
	IS(position(f), 0);
	FAILS(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "no such representation", MPI_INFO_NULL),
	      MPI_ERR_UNSUPPORTED_DATAREP);
	FAILS(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
	FAILS(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "NATIVE", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
	FAILS_OR(MPI_File_set_view(f, -1, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_ARG, MPI_ERR_OTHER);
	FAILS_OR(MPI_File_set_view(f, MPI_DISPLACEMENT_CURRENT, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_ARG,
		 MPI_ERR_OTHER);
	FAILS(MPI_File_set_view(f, 0, MPI_DATATYPE_NULL, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
	FAILS(MPI_File_set_view(f, 0, MPI_BYTE, MPI_DATATYPE_NULL, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
	/* a filetype that is no whole number of etypes */
	FAILS_OR(MPI_File_set_view(f, 0, MPI_INT, MPI_SHORT, "native", MPI_INFO_NULL), MPI_ERR_TYPE, MPI_ERR_ARG);
	/* the file is unchanged */
	WORKS(MPI_File_write_at_all(f, me, "abcdefghijklmnop", 1, MPI_BYTE, &st));
	IS(count_of(&st, MPI_BYTE), 1);
	meet_file(f);
	IS(size_of(f), np);
	WORKS(MPI_File_close(&f));
	FAILS(MPI_File_open(MPI_COMM_WORLD, path, RW, (MPI_Info)MPI_INFO_NULL, &f), MPI_SUCCESS);
	WORKS(MPI_File_close(&f));
	/* access against the mode */
	f = opened(MPI_COMM_WORLD, path, MPI_MODE_RDONLY);
	FAILS_OR(MPI_File_write_at(f, 0, b, 1, MPI_BYTE, &st), MPI_ERR_READ_ONLY, MPI_ERR_ACCESS);
	FAILS_OR(MPI_File_write(f, b, 1, MPI_BYTE, &st), MPI_ERR_READ_ONLY, MPI_ERR_ACCESS);
	FAILS_OR(MPI_File_iwrite(f, b, 1, MPI_BYTE, &r), MPI_ERR_READ_ONLY, MPI_ERR_ACCESS);
	FAILS_OR(MPI_File_write_shared(f, b, 1, MPI_BYTE, &st), MPI_ERR_READ_ONLY, MPI_ERR_ACCESS);
	FAILS_OR(MPI_File_write_all(f, b, 1, MPI_BYTE, &st), MPI_ERR_READ_ONLY, MPI_ERR_ACCESS);
	FAILS_OR(MPI_File_write_ordered(f, b, 1, MPI_BYTE, &st), MPI_ERR_READ_ONLY, MPI_ERR_ACCESS);
	FAILS_OR(access_file(ALL_BEGIN, 1, f, 0, b, 1, MPI_BYTE, &st), MPI_ERR_READ_ONLY, MPI_ERR_ACCESS);
	IS(position(f), 0);
	IS(position_shared(f), 0);
	WORKS(MPI_File_read(f, b, 1, MPI_BYTE, &st));
	IS(b[0], 'a');
	WORKS(MPI_File_sync(f));
	WORKS(MPI_File_close(&f));
	f = opened(MPI_COMM_WORLD, path, MPI_MODE_WRONLY);
	TRUE_THAT(MPI_File_read_at(f, 0, b, 1, MPI_BYTE, &st) != MPI_SUCCESS);
	TRUE_THAT(MPI_File_read_all(f, b, 1, MPI_BYTE, &st) != MPI_SUCCESS);
	IS(position(f), 0);
	WORKS(MPI_File_close(&f));
}

static int n_called, code_seen, extra_seen;
static MPI_File file_seen;
static void handler_fn(MPI_File *f, int *code, ...)
{
	n_called++;
	code_seen = *code;
	file_seen = *f;
}

static void handler_two(MPI_File *f, int *code, ...)
{
	(void)f;
	(void)code;
	extra_seen++;
}

static void handlers(void)
{
	MPI_File f, g;
	MPI_Errhandler h, two, seen;
	MPI_Status st;
	MPI_Request r;
	char b[8];

	fresh("handlers");
	WORKS(MPI_File_get_errhandler(MPI_FILE_NULL, &seen));
	IS(seen == MPI_ERRORS_RETURN, 1);
	WORKS(MPI_File_create_errhandler(handler_fn, &h));
	WORKS(MPI_File_create_errhandler(handler_two, &two));
	f = opened(MPI_COMM_WORLD, path, RW);
	WORKS(MPI_File_get_errhandler(f, &seen));
	IS(seen == MPI_ERRORS_RETURN, 1);
	WORKS(MPI_File_set_errhandler(f, h));
	WORKS(MPI_File_get_errhandler(f, &seen));
	IS(seen == h, 1);
	MPI_Errhandler_free(&seen);
	IS(seen == MPI_ERRHANDLER_NULL, 1);
	FAILS(MPI_File_read_at(f, 0, b, -1, MPI_BYTE, &st), MPI_ERR_COUNT);
	IS(n_called, 1);
	IS(class_of(code_seen), MPI_ERR_COUNT);
	IS(file_seen == f, 1);
	WORKS(MPI_File_call_errhandler(f, MPI_ERR_NO_SPACE));
	IS(n_called, 2);
	IS(code_seen, MPI_ERR_NO_SPACE);
	/* errors of a request are the file's */
	n_called = 0;
	int rc = MPI_File_iread_at(f, -1, b, 1, MPI_BYTE, &r);
	if (!rc)
		MPI_Wait(&r, &st);
	IS(n_called, 1);
	/* a file opened after the default was set has the new default; an open file keeps the old one */
	WORKS(MPI_File_set_errhandler(MPI_FILE_NULL, two));
	g = opened(MPI_COMM_WORLD, path, RW);
	extra_seen = n_called = 0;
	FAILS(MPI_File_read_at(g, 0, b, -1, MPI_BYTE, &st), MPI_ERR_COUNT);
	IS(extra_seen, 1);
	FAILS(MPI_File_read_at(f, 0, b, -1, MPI_BYTE, &st), MPI_ERR_COUNT);
	IS(n_called, 1);
	IS(extra_seen, 1);
	/* errors without a file are of the default one */
	FAILS(MPI_File_delete("/no/such/file", MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
	IS(extra_seen, 2);
	MPI_File none = MPI_FILE_NULL;
	FAILS(MPI_File_open(MPI_COMM_WORLD, "/no/such/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &none), MPI_ERR_NO_SUCH_FILE);
	IS(extra_seen, 3);
	FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &none), MPI_ERR_AMODE);
	IS(extra_seen, 4);
	FAILS(MPI_File_close(&none), MPI_ERR_FILE);
	IS(extra_seen, 5);
	WORKS(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_IO));
	IS(extra_seen, 6);
	/* a freed handler lives while a file uses the handler */
	MPI_Errhandler_free(&two);
	WORKS(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
	FAILS(MPI_File_read_at(g, 0, b, -1, MPI_BYTE, &st), MPI_ERR_COUNT);
	IS(extra_seen, 7);
	WORKS(MPI_File_close(&g));
	WORKS(MPI_File_close(&f));
	MPI_Errhandler_free(&h);
	/* a handler of another kind */
	MPI_Comm_create_errhandler((MPI_Comm_errhandler_function *)(void (*)(void))handler_fn, &h);
	f = opened(MPI_COMM_SELF, path, RW);
	TRUE_THAT(MPI_File_set_errhandler(f, h) != MPI_SUCCESS);
	TRUE_THAT(MPI_File_set_errhandler(f, MPI_ERRHANDLER_NULL) != MPI_SUCCESS);
	WORKS(MPI_File_close(&f));
	MPI_Errhandler_free(&h);
	/* every error class of files has a distinct text */
	static const int classes[] = {MPI_ERR_FILE,
				      MPI_ERR_NOT_SAME,
				      MPI_ERR_AMODE,
				      MPI_ERR_UNSUPPORTED_DATAREP,
				      MPI_ERR_UNSUPPORTED_OPERATION,
				      MPI_ERR_NO_SUCH_FILE,
				      MPI_ERR_FILE_EXISTS,
				      MPI_ERR_BAD_FILE,
				      MPI_ERR_ACCESS,
				      MPI_ERR_NO_SPACE,
				      MPI_ERR_QUOTA,
				      MPI_ERR_READ_ONLY,
				      MPI_ERR_FILE_IN_USE,
				      MPI_ERR_DUP_DATAREP,
				      MPI_ERR_CONVERSION,
				      MPI_ERR_IO};
	for (int i = 0; i < (int)(sizeof(classes) / sizeof(int)); i++) {
		IS(class_of(classes[i]), classes[i]);
		TRUE_THAT(strlen(error_text(classes[i])) > 5);
	}
}

/* MPI_MODE_SEQUENTIAL: the shared pointer alone */
static void sequential(void)
{
	MPI_File f;
	MPI_Status st;
	MPI_Request r = MPI_REQUEST_NULL;
	MPI_Offset o;
	char b[8] = "abcdefg", back[64];

	fresh("sequential");
	f = opened(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_SEQUENTIAL);
	FAILS(MPI_File_write_at(f, 0, b, 1, MPI_BYTE, &st), MPI_ERR_UNSUPPORTED_OPERATION);
	FAILS(MPI_File_write_at_all(f, 0, b, 1, MPI_BYTE, &st), MPI_ERR_UNSUPPORTED_OPERATION);
	FAILS(MPI_File_iwrite_at(f, 0, b, 1, MPI_BYTE, &r), MPI_ERR_UNSUPPORTED_OPERATION);
	FAILS(access_file(AT_ALL_BEGIN, 1, f, 0, b, 1, MPI_BYTE, &st), MPI_ERR_UNSUPPORTED_OPERATION);
	FAILS(MPI_File_write(f, b, 1, MPI_BYTE, &st), MPI_ERR_UNSUPPORTED_OPERATION);
	FAILS(MPI_File_write_all(f, b, 1, MPI_BYTE, &st), MPI_ERR_UNSUPPORTED_OPERATION);
	FAILS(MPI_File_iwrite(f, b, 1, MPI_BYTE, &r), MPI_ERR_UNSUPPORTED_OPERATION);
	FAILS(access_file(ALL_BEGIN, 1, f, 0, b, 1, MPI_BYTE, &st), MPI_ERR_UNSUPPORTED_OPERATION);
	FAILS(MPI_File_seek(f, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
	FAILS(MPI_File_get_position(f, &o), MPI_ERR_UNSUPPORTED_OPERATION);
	FAILS(MPI_File_get_byte_offset(f, 0, &o), MPI_ERR_UNSUPPORTED_OPERATION);
	FAILS(MPI_File_seek_shared(f, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
	FAILS(MPI_File_get_position_shared(f, &o), MPI_ERR_UNSUPPORTED_OPERATION);
	FAILS(MPI_File_set_size(f, 10), MPI_ERR_UNSUPPORTED_OPERATION);
	FAILS(MPI_File_preallocate(f, 10), MPI_ERR_UNSUPPORTED_OPERATION);
	WORKS(MPI_File_write_ordered(f, b, 2, MPI_BYTE, &st));
	FAILS_OR(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_ARG,
		 MPI_ERR_UNSUPPORTED_OPERATION);
	WORKS(MPI_File_set_view(f, MPI_DISPLACEMENT_CURRENT, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
	MPI_Datatype e, t;
	char rep[MPI_MAX_DATAREP_STRING + 1];
	WORKS(MPI_File_get_view(f, &o, &e, &t, rep));
	IS(o, 2 * np);
	b[0] = 'x';
	WORKS(MPI_File_write_shared(f, b, 1, MPI_BYTE, &st));
	all_here();
	IS(size_of(f), 3 * np);
	WORKS(MPI_File_close(&f));
	IS(bytes_of(path, back, sizeof(back)), 3 * np);
	for (int i = 0; i < 3 * np && i < 60; i++)
		IS(back[i], i < 2 * np ? "ab"[i % 2] : 'x');
	f = opened(MPI_COMM_WORLD, path, MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL);
	WORKS(MPI_File_read_ordered(f, b, 2, MPI_BYTE, &st));
	IS(b[0], 'a');
	IS(b[1], 'b');
	WORKS(MPI_File_set_view(f, MPI_DISPLACEMENT_CURRENT, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
	WORKS(MPI_File_read_shared(f, b, 1, MPI_BYTE, &st));
	IS(b[0], 'x');
	WORKS(MPI_File_close(&f));
	/* appended to */
	f = opened(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL | MPI_MODE_APPEND);
	b[0] = 'y';
	WORKS(MPI_File_write_ordered(f, b, 1, MPI_BYTE, &st));
	WORKS(MPI_File_close(&f));
	IS(bytes_of(path, back, sizeof(back)), 4 * np);
	IS(back[3 * np], 'y');
}

/* MPI_MODE_APPEND moves the pointers when the file is opened, and does not affect later writes. */
static void append(void)
{
	MPI_File f;
	MPI_Status st;
	char back[64];

	fresh("append");
	make_file(path, "0123456789", 10);
	f = opened(MPI_COMM_WORLD, path, RW | MPI_MODE_APPEND);
	IS(position(f), 10);
	IS(position_shared(f), 10);
	all_here();
	if (!me)
		WORKS(MPI_File_write_at(f, 2, "x", 1, MPI_CHAR, &st));
	WORKS(MPI_File_write_ordered(f, "y", 1, MPI_CHAR, &st));
	WORKS(MPI_File_seek(f, 4, MPI_SEEK_SET));
	if (!me)
		WORKS(MPI_File_write(f, "z", 1, MPI_CHAR, &st));
	WORKS(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
	IS(position(f), 0);
	WORKS(MPI_File_close(&f));
	IS(bytes_of(path, back, sizeof(back)), 10 + np);
	IS(memcmp(back, "01x3z56789y", 11), 0);
}

/* Permissions, links, special files. */
static void file_kinds(void)
{
	char link[800], fifo[800];
	MPI_File f = MPI_FILE_NULL;
	struct stat st;

	fresh("kinds");
	snprintf(link, sizeof(link), "%s/kinds_link", dir);
	snprintf(fifo, sizeof(fifo), "%s/kinds_dangling", dir);
	all_here();
	if (!me) {
		unlink(link);
		unlink(fifo);
		IS(symlink(path, link), 0);
		IS(symlink("no_such_file_of_it", fifo), 0);
	}
	all_here();
	/* a link to a file that does not exist: the file is created */
	f = opened(MPI_COMM_WORLD, link, RW);
	WORKS(MPI_File_write_at_all(f, 0, "ab", 2, MPI_CHAR, MPI_STATUS_IGNORE));
	WORKS(MPI_File_close(&f));
	IS(exists(path), 1);
	IS(class_of_open(fifo, MPI_MODE_RDWR), MPI_ERR_NO_SUCH_FILE);
	IS(class_of_open(link, RW | MPI_MODE_EXCL), MPI_ERR_FILE_EXISTS);
	IS(class_of_open(fifo, RW | MPI_MODE_EXCL), MPI_ERR_FILE_EXISTS);
	/* deleting a link does not delete the file */
	f = opened(MPI_COMM_WORLD, link, RW | MPI_MODE_DELETE_ON_CLOSE);
	WORKS(MPI_File_close(&f));
	IS(exists(link), 0);
	IS(exists(path), 1);
	IS(stat(path, &st), 0);
	mode_t mask = umask(0);
	umask(mask);
	IS(st.st_mode & 0777, 0666 & ~mask);
	all_here();
	if (!me)
		unlink(fifo);
	all_here();
}

static const struct io_case cases[] = {
	{"14.2.1", "amodes", amodes},
	{"14.2.1", "amodes_wrong", amodes_wrong},
	{"14.2.1", "names", names},
	{"14.2.1", "append", append},
	{"14.2.1", "sequential", sequential},
	{"14.2.1", "file_kinds", file_kinds},
	{"14.2.3", "deletes", deletes},
	{"14.2.4", "sizes", sizes},
	{"14.2.7", "communicators", communicators},
	{"14.2.8", "infos", infos},
	{"14.7", "null_handles", null_handles},
	{"14.8", "arguments", arguments},
	{"14.7", "handlers", handlers},
};

int main(int argc, char **argv)
{
	return io_run("io_standard_manage", cases, N_CASES(cases), argc, argv);
}
